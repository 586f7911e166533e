export { Calls, isSettled, type CallsQuery, type ToolAnswer } from "./calls.js";
export { Client } from "./client.js";
export { Connection, type ConnectionOptions, type Given, type Method, type RequestOptions } from "./connection.js";
export { CallPending, GatewayError, GatewayUnreachable, JackfieldError, NoAnswer, SessionFailed, ToolFailed } from "./errors.js";
export { frames, type Frame } from "./frames.js";
export type { CallContext, Servables, ServedTool, ToolFunction } from "./functions.js";
/** Every record of the API. */
export type * as api from "./generated.js";
export type {
  ActiveAgent,
  CallEvent,
  CallPage,
  CallRecord,
  CallStatus,
  ExecuteAnswer,
  FailureCode,
  MessageRecord,
  RefusalCode,
  Routes,
  RunEvent,
  RunRecord,
  SessionEvent,
  SessionRecord,
  SpaceEvent,
  SpaceRecord,
  ToolEntry,
  ToolsChanged,
  WholeRun,
} from "./generated.js";
export { parsed } from "./json.js";
export { Runs, type RunsQuery } from "./runs.js";
export { INTERRUPTED, type ServeOptions } from "./serving.js";
export { Session, Sessions, type OpenOptions } from "./sessions.js";
export { Spaces, textWith, type SendOptions } from "./spaces.js";
export { Tools, UNSETTLED, type CallOptions } from "./tools.js";
