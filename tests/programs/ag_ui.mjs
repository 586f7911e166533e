// A chat over AG-UI with a space: what is said, what is called, an answer to the call, and what comes of it.
import { Client } from "@jackfield/react";
import { SpaceAgent } from "./out/ag-ui.js";

const agent = new SpaceAgent(new Client({ url: process.env.JACKFIELD_URL, key: process.env.JACKFIELD_KEY }), "garden");
const events = [];
const subscriber = { onEvent: ({ event }) => void events.push(event.type) };

agent.addMessage({ id: "1", role: "user", content: "Please confirm 🌻 it" });
await agent.runAgent({}, subscriber);
const call = agent.messages.flatMap(({ toolCalls = [] }) => toolCalls).at(-1);
agent.addMessage({ id: "2", role: "tool", toolCallId: call.id, content: JSON.stringify({ confirmed: true }) });
await agent.runAgent({}, subscriber);
console.log(JSON.stringify({ events, call: call.function, messages: agent.messages }));
