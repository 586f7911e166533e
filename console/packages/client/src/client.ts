import { Calls } from "./calls.js";
import { Connection, type ConnectionOptions, type Given, type RequestOptions } from "./connection.js";
import type { Readiness, Routes, SignedIn } from "./generated.js";
import { Runs } from "./runs.js";
import { Sessions } from "./sessions.js";
import { Spaces } from "./spaces.js";
import { Tools } from "./tools.js";

/** A gateway. `url` and `key` default to `JACKFIELD_URL` and `JACKFIELD_KEY`, in a page to its own origin and login. */
export class Client {
  readonly connection: Connection;
  readonly tools: Tools;
  readonly calls: Calls;
  readonly spaces: Spaces;
  readonly sessions: Sessions;
  readonly runs: Runs;

  constructor(options: ConnectionOptions = {}) {
    this.connection = new Connection(options);
    this.tools = new Tools(this.connection);
    this.calls = new Calls(this.connection);
    this.spaces = new Spaces(this.connection);
    this.sessions = new Sessions(this.connection);
    this.runs = new Runs(this.connection);
  }

  get url(): string {
    return this.connection.url;
  }

  /** Any route of the gateway, with the types of the API: `client.request("GET /api/agents/{id}", { path: { id } })`. */
  request<R extends keyof Routes>(route: R, ...rest: {} extends Given<R> ? [given?: Given<R>, options?: RequestOptions] : [given: Given<R>, options?: RequestOptions]): Promise<Routes[R]["response"]> {
    return this.connection.request(route, ...rest);
  }

  /** Whether the gateway is ready, and the state of its store; with a key, of its sources too. */
  ready(): Promise<Readiness> {
    return this.connection.request("GET /readyz");
  }

  /** Who this key belongs to, and what it may do. */
  identity(): Promise<SignedIn> {
    return this.connection.request("GET /api/login");
  }
}
