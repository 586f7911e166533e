// MCP's TypeScript SDK, 1.x and 2.x, over HTTP or through mcp-remote, which is a server on stdio to it. Uses everything
// that the server behind the gateway has, and prints what held.
const { JACKFIELD_URL, JACKFIELD_KEY, MCP_REMOTE, MCP_SDK, MCP_MODE } = process.env;
const url = `${JACKFIELD_URL}/mcp`;
const headers = { "x-api-key": JACKFIELD_KEY };
const two = MCP_SDK === "2";
const { Client, StreamableHTTPClientTransport, StdioClientTransport, asks, updates } = await load();

async function load() {
  if (two) {
    const { Client, StreamableHTTPClientTransport } = await import("@modelcontextprotocol/client");
    const updates = "notifications/resources/updated";
    return { Client, StreamableHTTPClientTransport, asks: "elicitation/create", updates };
  }
  const sdk = "@modelcontextprotocol/sdk";
  const { Client } = await import(`${sdk}/client/index.js`);
  const { StreamableHTTPClientTransport } = await import(`${sdk}/client/streamableHttp.js`);
  const { StdioClientTransport } = await import(`${sdk}/client/stdio.js`);
  const { ElicitRequestSchema: asks, ResourceUpdatedNotificationSchema: updates } = await import(`${sdk}/types.js`);
  return { Client, StreamableHTTPClientTransport, StdioClientTransport, asks, updates };
}

const options = { capabilities: { elicitation: { form: {} } } };
if (two) options.versionNegotiation = { mode: MCP_MODE };
const client = new Client({ name: "conformance", version: "1" }, options);
let asked = 0;
client.setRequestHandler(asks, async () => {
  asked += 1;
  return { action: "accept", content: { name: "Ada" } };
});
const command = { command: process.execPath, args: [MCP_REMOTE, url, "--header", `x-api-key:${JACKFIELD_KEY}`, "--allow-http"] };
const transport = MCP_REMOTE
  ? new StdioClientTransport({ ...command, env: process.env, stderr: "inherit" })
  : new StreamableHTTPClientTransport(new URL(url), { requestInit: { headers } });
await client.connect(transport);

const checks = {};
const { tools } = await client.listTools();
checks["lists tools"] = tools.some((tool) => tool.name === "rich" && tool.icons?.length === 1 && tool.outputSchema);
const called = await client.callTool({ name: "rich", arguments: { text: "hello" } });
checks["calls a tool"] = called.structuredContent?.text === "hello";
checks["images, audio, links"] = called.content.map((block) => block.type).join() === "text,image,audio,resource_link,resource";
const progress = [];
const handlers = { onprogress: (told) => progress.push(told.progress) };
await (two ? client.callTool({ name: "progress", arguments: {} }, handlers) : client.callTool({ name: "progress", arguments: {} }, undefined, handlers));
checks["progress"] = progress.join() === "0.25,0.5,1";
const answer = await client.callTool({ name: "ask", arguments: {} });
checks["elicitation"] = asked === 1 && answer.structuredContent?.content?.name === "Ada";
const failed = await client.callTool({ name: "fail", arguments: {} });
checks["a tool that fails"] = failed.isError === true;

const { resources } = await client.listResources();
checks["lists resources"] = resources.some((resource) => resource.uri === "rich://text" && resource.size === 5);
const { resourceTemplates } = await client.listResourceTemplates();
checks["lists templates"] = resourceTemplates.some((template) => template.uriTemplate === "rich://item/{id}");
const read = await client.readResource({ uri: "rich://item/7" });
checks["reads a resource"] = read.contents[0].text === "Item 7";
const blob = await client.readResource({ uri: "rich://blob" });
checks["reads bytes"] = blob.contents[0].blob?.startsWith("iVBOR") ?? false;
const missing = await client.readResource({ uri: "rich://nothing" }).catch((fault) => fault);
checks["a resource that is not there"] = missing instanceof Error && [-32002, -32602].includes(missing.code); // 2.x knows the newer number only

const updated = new Promise((resolve) => client.setNotificationHandler(updates, (told) => resolve(told.params.uri)));
const late = new Promise((resolve) => setTimeout(resolve, 10_000, "late"));
if (MCP_MODE === "auto") await client.listen({ resourceSubscriptions: ["rich://text"] });
else await client.subscribeResource({ uri: "rich://text" });
await client.callTool({ name: "touch", arguments: {} });
checks["a resource that changes"] = (await Promise.race([updated, late])) === "rich://text";

const { prompts } = await client.listPrompts();
checks["lists prompts"] = prompts.some((prompt) => prompt.name === "rich" && prompt.arguments?.length === 2);
const got = await client.getPrompt({ name: "rich", arguments: { topic: "fields" } });
checks["gets a prompt"] = got.messages[0].content.text === "About fields";
const completed = await client.complete({ ref: { type: "ref/prompt", name: "rich" }, argument: { name: "topic", value: "f" } });
checks["completes an argument"] = completed.completion.values.join() === "f0,f1,f2";

console.log(JSON.stringify(Object.fromEntries(Object.entries(checks).map(([name, held]) => [name, Boolean(held)]))));
await client.close();
process.exit(0);
