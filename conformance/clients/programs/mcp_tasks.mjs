// The MCP project's client of tasks (ext-tasks) on its TypeScript SDK 2.x, for tasks of 2025-11-25 and of the extension:
// calls a tool that has to be approved, approves or rejects it over HTTP, and prints what held.
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { createTaskSessionFromClient, resultFromTaskOutcome } from "@modelcontextprotocol/ext-tasks/client";

const { JACKFIELD_URL, JACKFIELD_KEY, MCP_MODE } = process.env;
const url = new URL(`${JACKFIELD_URL}/mcp`);
const headers = { "x-api-key": JACKFIELD_KEY };
const isModern = MCP_MODE === "auto";
const clientInfo = { name: "conformance", version: "1" };
const capabilities = isModern ? { extensions: { "io.modelcontextprotocol/tasks": {} } } : {};
const client = new Client(clientInfo, { capabilities, versionNegotiation: { mode: MCP_MODE } });
await client.connect(new StreamableHTTPClientTransport(url, { requestInit: { headers } }));

// The SDK does not send requests of extensions, so the package wants to be given a way.
let id = 0;
async function rawDispatch({ method, params }) {
  const name = params.taskId ?? params.name;
  const named = { "mcp-protocol-version": "2026-07-28", "mcp-method": method, ...(name ? { "mcp-name": name } : {}) };
  const accept = "application/json, text/event-stream";
  const body = JSON.stringify({ jsonrpc: "2.0", id: ++id, method, params });
  const sent = { ...headers, ...named, accept, "content-type": "application/json" };
  const answer = await (await fetch(url, { method: "POST", headers: sent, body })).json();
  return answer.error ? { kind: "error", error: answer.error } : { kind: "result", result: answer.result };
}
const v2RequestFraming = { protocolVersion: "2026-07-28", clientInfo, clientCapabilities: capabilities };
const session = createTaskSessionFromClient(client, { endpointId: "jackfield", ...(isModern ? { rawDispatch, v2RequestFraming } : {}) });

async function decide(word) {
  for (;;) {
    const { calls } = await (await fetch(`${JACKFIELD_URL}/api/v1/calls?status=pending_approval`, { headers })).json();
    if (calls.length) {
      const path = `${JACKFIELD_URL}/api/v1/calls/${calls[0].id}/${word}`;
      const answer = await fetch(path, { method: "POST", headers: { ...headers, "content-type": "application/json" }, body: "{}" });
      return answer.status;
    }
    await new Promise((later) => setTimeout(later, 50));
  }
}

async function outcomeOf(word) {
  const execution = await session.callTool("allow_me", { amount: 7 }, { task: { preference: "prefer" } });
  const [settled, status] = await Promise.all([execution.settle(), decide(word)]);
  return { settled, status };
}

const checks = { "the era": client.getProtocolEra() === (isModern ? "modern" : "legacy") };
const approved = await outcomeOf("approve");
const result = resultFromTaskOutcome(approved.settled.outcome);
checks["a task that is approved"] = approved.status === 200 && result.structuredContent?.args?.amount === 7;
checks["it was a task"] = approved.settled.lastTask?.taskId === result._meta["jackfield/callId"];
const rejected = await outcomeOf("reject");
checks["a task that is rejected"] = rejected.status === 200 && JSON.stringify(rejected.settled).includes("A person rejected this call");
await session.close();
await client.close();
console.log(JSON.stringify(checks));
