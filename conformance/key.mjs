// Loaded before the suite, which cannot be given a key: adds ours to every request it makes, by whichever client.
import http from "node:http";
import { createRequire } from "node:module";

const { getGlobalDispatcher, setGlobalDispatcher } = createRequire(process.argv[1])("undici");
const withKey = (options) => ({ ...options, headers: { ...options.headers, "x-api-key": process.env.JACKFIELD_KEY } });

setGlobalDispatcher(
  getGlobalDispatcher().compose((dispatch) => (options, handler) => dispatch(withKey(options), handler)),
);

const request = http.request;
http.request = (options, answered) => request(withKey(options), answered);
