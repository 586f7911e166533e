export { frames, GatewayError, parsed, textWith, type Frame } from "@jackfield/client";
export { Client, type ClientOptions } from "./client.js";
export { JackfieldProvider, useClient, useSpace, useToolResult, type Space, type ToolResult } from "./hooks.js";
export { PlainTool, ToolUI, ToolUIProvider, useHasToolUI, type ToolComponent, type ToolProps, type ToolRegistry } from "./registry.js";
export { EMPTY, withEvent, withPage, type InFlight, type SpaceState } from "./space-state.js";
export { follow, type FollowOptions, type StreamState } from "./stream.js";
export { toolCallOf, type ActiveAgent, type CallState, type SpaceEvent, type SpaceMessage, type ToolCallData } from "./types.js";
export { takeTurn, history, answerCall, type Turn, type TurnEvent } from "./turn.js";
