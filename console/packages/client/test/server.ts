/** A tool server for the tests that kill it, or its gateway: it says each line as it happens. */
import { Client, type ServeOptions } from "@jackfield/client";

const stop = new AbortController();
process.on("SIGTERM", () => stop.abort());
const options: ServeOptions = { signal: stop.signal, onConnected: () => console.log("connected"), grace: 5000 };

const patient = async ({ n }: { n?: number }): Promise<number> => {
  console.log(`begun ${n ?? 0}`);
  await new Promise<void>((resolve) => process.stdin.once("data", () => resolve()));
  return n ?? 0;
};

await new Client().tools.serve({ patient, job: patient }, options);
console.log("drained");
process.exit();
