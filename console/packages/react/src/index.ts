export { Client, type ClientOptions } from "./client";
export { JackfieldProvider, useClient, useSpace, useToolResult, type Space, type ToolResult } from "./hooks";
export { ToolUI, ToolUIProvider, useHasToolUI, type ToolComponent, type ToolProps, type ToolRegistry } from "./registry";
export { EMPTY, withEvent, withPage, type InFlight, type SpaceState } from "./space-state";
export { follow, frames, type Frame, type FollowOptions, type StreamState } from "./stream";
export { GatewayError, toolCallOf, type ActiveAgent, type CallState, type SpaceEvent, type SpaceMessage, type ToolCallData } from "./types";
