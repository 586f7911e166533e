/**
 * The client at a real gateway, run by `tests/stories/typescript/test_client.py`: `JACKFIELD_URL` and `JACKFIELD_KEY` name it, its
 * tools are those of the test. Every wait is for an outcome.
 */
import assert from "node:assert/strict";
import { createServer, request as forward, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { test } from "node:test";
import { CallPending, Client, GatewayError, GatewayUnreachable, INTERRUPTED, NoAnswer, ToolFailed, type CallEvent, type SpaceEvent } from "@jackfield/client";

const client = new Client();
const url = client.url;

/** Serves functions while the block runs. */
async function serving<T>(functions: Parameters<Client["tools"]["serve"]>[0], options: Parameters<Client["tools"]["serve"]>[1], block: (stop: () => Promise<void>) => Promise<T>): Promise<T> {
  const controller = new AbortController();
  let connected = (): void => undefined;
  const isConnected = new Promise<void>((resolve) => (connected = resolve));
  const served = client.tools.serve(functions, { grace: 5000, ...options, signal: controller.signal, onConnected: () => connected() });
  await Promise.race([isConnected, served.then(() => assert.fail("it ended before it was connected"))]);
  const stop = async (): Promise<void> => {
    controller.abort();
    await served;
  };
  try {
    return await block(stop);
  } finally {
    await stop();
  }
}

/** A gate that functions wait at. */
function gate(): { opened: Promise<void>; open: () => void } {
  let open = (): void => undefined;
  const opened = new Promise<void>((resolve) => (open = resolve));
  return { opened, open: () => open() };
}

/** A proxy that loses the response of the first request with a body; what it was sent has arrived. */
async function forgetfulProxy(): Promise<Server> {
  let lost = false;
  const server = createServer((incoming, outgoing) => {
    const target = new URL(incoming.url ?? "/", url);
    const onward = forward(target, { method: incoming.method, headers: { ...incoming.headers, host: target.host } }, (answer) => {
      if (!lost && incoming.method === "POST") {
        lost = true;
        answer.resume().on("end", () => outgoing.destroy());
        return;
      }
      outgoing.writeHead(answer.statusCode ?? 500, answer.headers);
      answer.pipe(outgoing);
    });
    incoming.pipe(onward);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return server;
}

test("the catalog is listed, searched and called", async () => {
  assert.equal((await client.ready()).status, "ready");
  assert.ok((await client.identity()).scopes.includes("admin"));
  assert.ok((await client.tools.list()).some((tool) => tool.name === "add" && tool.source === "local"));
  assert.equal((await client.tools.search("add two whole numbers", { limit: 1 }))[0]?.name, "add");
  assert.equal((await client.tools.get("add")).parameters.type, "object");
  assert.equal(await client.tools.call<number>("add", { a: 1, b: 2 }), 3);
  assert.deepEqual((await client.request("GET /api/v1/groups")).groups, []);
});

test("refusals, failures and what is unreachable are errors of their own", async () => {
  const invalid = await client.tools.call("add", { a: "one" }).catch((fault: unknown) => fault);
  assert.ok(invalid instanceof GatewayError);
  assert.deepEqual([invalid.status, invalid.code, invalid.details[0]?.path], [400, "invalid_arguments", "a"]);
  await assert.rejects(client.tools.call("unknown_tool"), { name: "GatewayError", code: "tool_not_found", isFinal: true });
  await assert.rejects(client.tools.call("boom"), (fault) => fault instanceof ToolFailed && fault.code === "tool_error" && fault.callId !== "");
  await assert.rejects(new Client({ key: "wrong" }).tools.list(), { status: 401, code: "unauthenticated" });
  await assert.rejects(new Client({ url: "http://127.0.0.1:9", retries: 1 }).tools.list(), (fault) => fault instanceof GatewayUnreachable && fault.status === 0);
  await assert.rejects(client.calls.get(".."), TypeError);
});

test("a timeout and a signal end the waiting", async () => {
  await assert.rejects(client.tools.call("patient", {}, { timeout: 50 }), NoAnswer);
  const leaving = new AbortController();
  const waiting = client.tools.call("patient", {}, { signal: leaving.signal });
  leaving.abort(new Error("enough"));
  await assert.rejects(waiting, /enough/);
  for (const call of await client.calls.pending({ tool: "patient" })) await client.calls.cancel(call.id);
});

test("a call whose response is lost is sent again and made once", async () => {
  const server = await forgetfulProxy();
  const { port } = server.address() as AddressInfo;
  const through = new Client({ url: `http://127.0.0.1:${port}` });
  const answer = await through.tools.start("add", { a: 20_000, b: 22_222 });
  assert.deepEqual([answer.status, answer.result], ["completed", 42_222]);
  assert.equal((await client.calls.list({ q: "22222" })).calls.length, 1);
  server.closeAllConnections();
  server.close();
});

test("an approval is waited for, edited and given", async () => {
  const pending = await client.tools.call("guarded", { amount: 100 }).catch((fault: unknown) => fault);
  assert.ok(pending instanceof CallPending);
  assert.equal(pending.status, "pending_approval");
  assert.ok((await client.calls.pending({ tool: "guarded" })).some((call) => call.id === pending.callId));
  const ended = client.calls.wait(pending.callId, { timeout: 20_000 });
  await client.calls.approve(pending.callId, { amount: 50 });
  assert.deepEqual([(await ended).status, (await ended).result, (await ended).decision], ["completed", 50, "approved"]);
  const other = await client.tools.start("guarded", { amount: 1 });
  assert.equal((await client.calls.reject(other.call_id, "no")).status, "rejected");
  await assert.rejects(client.calls.approve(other.call_id), { status: 409 });
});

test("a pending call is answered once", async () => {
  const { call_id, run_id } = await client.tools.start("job");
  assert.equal((await client.calls.wait(call_id, { timeout: 10 })).status, "pending");
  await client.calls.progress(call_id, { progress: 1, total: 2 });
  const receipt = await client.calls.submit(call_id, null, { runId: run_id });
  assert.equal(receipt.callId, call_id);
  assert.equal(await client.calls.result(call_id), null);
  await assert.rejects(client.calls.submit(call_id, 1), { code: "already_resolved" });
  const failing = await client.tools.start("job");
  await client.calls.fail(failing.call_id, "no luck");
  assert.equal((await client.calls.get(failing.call_id)).error?.message, "no luck");
});

test("an answer whose response was lost is known to be there", async () => {
  const server = await forgetfulProxy();
  const { port } = server.address() as AddressInfo;
  const { call_id, run_id } = await client.tools.start("job");
  const receipt = await new Client({ url: `http://127.0.0.1:${port}` }).calls.submit(call_id, { rooms: [1, null] }, { runId: run_id });
  assert.equal(receipt.callId, call_id);
  server.closeAllConnections();
  server.close();
});

test("functions are served as declared tools, with progress, and drained at the end", async () => {
  const begun = gate();
  const release = gate();
  const functions = {
    area: {
      description: "The area of a field.",
      inputSchema: { type: "object", properties: { width: { type: "number" }, height: { type: "number" } }, required: ["width", "height"] },
      run: ({ width, height }: { width: number; height: number }) => width * height,
    },
    measured: async (_: unknown, context: { progress: (done: number, total?: number, message?: string) => void }) => {
      context.progress(1, 2, "half");
      await heard.opened;
      return undefined;
    },
    broken: () => {
      throw new RangeError("too wide");
    },
    slowly: async () => {
      begun.open();
      await release.opened;
      return "finished";
    },
  };
  const heard = gate();
  await serving(functions, { declare: "fields" }, async (stop) => {
    const tool = await client.tools.get("area");
    assert.deepEqual([tool.source, tool.description], ["fields", "The area of a field."]);
    assert.equal(await client.tools.call("area", { width: 2, height: 3 }), 6);
    await assert.rejects(client.tools.call("area", { width: "wide", height: 1 }), { code: "invalid_arguments" });
    await assert.rejects(client.tools.call("broken"), (fault) => fault instanceof ToolFailed && fault.message === "RangeError: too wide");
    const told: CallEvent[] = [];
    const onEvent = (event: CallEvent): void => {
      told.push(event);
      if (event.progress?.message === "half") heard.open();
    };
    assert.equal(await client.tools.call("measured", {}, { onEvent }), null);
    assert.ok(told.some((event) => event.type === "call.progress"));
    const slow = client.tools.call("slowly");
    await begun.opened;
    const stopped = stop();
    release.open();
    assert.equal(await slow, "finished");
    await stopped;
  });
});

test("a call that is given up when its server stops is answered so at once", async () => {
  const begun = gate();
  await serving({ patient: () => (begun.open(), new Promise(() => undefined)) }, { grace: 50 }, async (stop) => {
    const calling = client.tools.call("patient");
    await begun.opened;
    await Promise.all([stop(), assert.rejects(calling, (fault) => fault instanceof ToolFailed && fault.message === INTERRUPTED)]);
  });
});

test("no more than the bound run at once, and all are answered", async () => {
  let running = 0;
  let most = 0;
  const three = gate();
  const patient = async ({ n }: { n: number }): Promise<number> => {
    most = Math.max(most, ++running);
    if (running === 3) three.open();
    await three.opened;
    running--;
    return n;
  };
  await serving({ patient }, { concurrency: 3 }, async () => {
    const numbers = [...Array(12).keys()];
    assert.deepEqual(await Promise.all(numbers.map((n) => client.tools.call("patient", { n }))), numbers);
  });
  assert.equal(most, 3);
});

test("a key that may not serve a tool is told so", async () => {
  const worker = new Client({ key: "workers-key" });
  await assert.rejects(worker.tools.serve({ job: () => 1 }), { name: "GatewayError", code: "forbidden" });
});

test("a space is followed from a message on", async () => {
  const { lastSeq } = await client.spaces.messages("lobby", { limit: 1 });
  const stop = new AbortController();
  const told: SpaceEvent[] = [];
  const following = (async () => {
    for await (const event of client.spaces.follow("lobby", { afterSeq: lastSeq, signal: stop.signal })) {
      told.push(event);
      if (event.message?.senderType === "agent") return event.message;
    }
    return assert.fail("the stream ended");
  })();
  const sent = await client.spaces.send("lobby", "Good day");
  assert.equal((await client.spaces.send("lobby", "Good day", { id: sent.id })).seq, sent.seq); // a retry posts nothing
  const heard = await following;
  assert.equal(heard.content, "Good day to you.");
  const streamed = told.filter((event) => event.type === "space.message.streaming");
  assert.equal(streamed.map((event) => event.delta).join(""), streamed.at(-1)?.text ?? "");
  assert.ok("Good day to you.".startsWith(streamed.at(-1)?.text ?? ""));
  stop.abort();
  const resumed: SpaceEvent[] = [];
  for await (const event of client.spaces.follow("lobby", { afterSeq: sent.seq })) {
    if (event.seq != null) resumed.push(event);
    if (event.message?.id === heard.id) break;
  }
  assert.ok(resumed.every((event, index) => event.seq! > (resumed[index - 1]?.seq ?? sent.seq)));
  assert.equal((await client.spaces.get("lobby")).name, "lobby");
  assert.equal((await client.spaces.markRead("lobby")).lastSeenSeq! >= heard.seq, true);
});

test("an agent of a session uses the caller's functions", async () => {
  const sent: string[] = [];
  const send_response = ({ message }: { message: string }): string => (sent.push(message), "delivered");
  const session = await client.sessions.open({ agent: "helper", callerId: "ant", tools: { send_response } });
  assert.equal(await session.ask("send it"), "I was told: delivered");
  assert.deepEqual(sent, ["hello"]);
  const kinds: string[] = [];
  for await (const event of session.events()) {
    kinds.push(event.type);
    if (event.type === "completion") break;
  }
  assert.ok(kinds.includes("caller_tool_request"));
  await session.end();
  await session.end();
  assert.equal((await client.sessions.get(session.id)).status, "completed");
});

test("runs are listed, shown and followed to their end", async () => {
  const { runs } = await client.runs.list({ agent: "helper", limit: 5 });
  const run = runs.find((one) => one.kind === "cycle") ?? assert.fail("no cycle");
  assert.equal((await client.runs.get(run.id)).id, run.id);
  let last = "";
  for await (const event of client.runs.stream(run.id)) last = event.type;
  assert.equal(last, "run.completed");
});
