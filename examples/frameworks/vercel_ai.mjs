// An agent of Vercel's AI SDK: its model is the gateway's /v1/responses, its tools are those of /mcp.
import { createMCPClient } from "@ai-sdk/mcp";
import { createOpenAI } from "@ai-sdk/openai";
import { generateText, stepCountIs } from "ai";

const { JACKFIELD_URL: url = "http://127.0.0.1:8420", JACKFIELD_KEY: key = "frameworks-example-key" } = process.env;
const openai = createOpenAI({ baseURL: `${url}/v1`, apiKey: key });
const server = await createMCPClient({ transport: { type: "http", url: `${url}/mcp`, headers: { authorization: `Bearer ${key}` } } });

const answer = await generateText({
  model: openai.responses("default"),
  tools: await server.tools(),
  stopWhen: stepCountIs(5),
  prompt: "What is the weather in Oslo?",
});
console.log(answer.text);
await server.close();
