/**
 * What the client throws:
 *
 * JackfieldError
 * ├── GatewayError           the gateway refused the request; `code` says why
 * │   └── GatewayUnreachable no connection, or it broke before the response; status 0
 * ├── NoAnswer               the timeout was over; the request may still take effect
 * ├── ToolFailed             the call was made and failed; it has the tool's result
 * ├── CallPending            the call was made and waits for an approval, a login or an answer
 * └── SessionFailed          the agent of a session failed, or the session was over
 *
 * An aborted signal is none of these: its own reason is thrown.
 */
import type { CallStatus, ErrorAnswer, ErrorDetail, ExecuteAnswer, FailureCode, RefusalCode } from "./generated.js";

type OrAny<Known extends string> = Known | (string & {});

export class JackfieldError extends Error {
  constructor(
    readonly code: string,
    message: string,
  ) {
    super(message);
    this.name = new.target.name;
  }
}

export class GatewayError extends JackfieldError {
  declare readonly code: OrAny<RefusalCode | "error">;
  /** The parameter at fault. */
  readonly param: string | null = null;
  /** Of `login_needed`: where to log in. */
  readonly loginUrl: string | null = null;
  /** Of 429 and 503: after how many milliseconds to come back. */
  readonly retryAfter: number | null = null;

  constructor(
    readonly status: number,
    code: OrAny<RefusalCode | "error">,
    message: string,
    /** Of `invalid_arguments`: each argument at fault. */
    readonly details: ErrorDetail[] = [],
    more: { param?: string | null; loginUrl?: string | null; retryAfter?: number | null } = {},
  ) {
    super(code, message);
    this.param = more.param ?? null;
    this.loginUrl = more.loginUrl ?? null;
    this.retryAfter = more.retryAfter ?? null;
  }

  /** Whether a retry would fail the same way. */
  get isFinal(): boolean {
    return [400, 401, 403, 404].includes(this.status);
  }

  /** Whether the gateway, or what stands before it, is away for now: it may be waited for. */
  get isAway(): boolean {
    return this.status === 0 || this.status >= 500;
  }
}

export class GatewayUnreachable extends GatewayError {
  constructor(message: string) {
    super(0, "gateway_unreachable", message);
  }
}

export class NoAnswer extends JackfieldError {
  constructor(message: string) {
    super("no_answer", message);
  }
}

export class ToolFailed extends JackfieldError {
  declare readonly code: OrAny<FailureCode>;
  readonly callId: string;
  readonly status: CallStatus;
  /** What the tool gave all the same, or what an agent is told. */
  readonly result: unknown;

  constructor(tool: string, answer: ExecuteAnswer) {
    super(answer.error?.code ?? answer.status, answer.error?.message ?? `Call ${answer.call_id} of '${tool}' ended as ${answer.status}.`);
    this.callId = answer.call_id;
    this.status = answer.status;
    this.result = answer.result;
  }
}

const WAITS_FOR: Partial<Record<CallStatus, string>> = { pending_approval: "it needs approval", pending_login: "somebody has to log in" };

export class CallPending extends JackfieldError {
  readonly callId: string;
  readonly status: CallStatus;
  readonly loginUrl: string | null;

  constructor(tool: string, answer: ExecuteAnswer) {
    const place = answer.login_url === undefined ? "" : ` at ${answer.login_url}`;
    const why = `${WAITS_FOR[answer.status] ?? "it is answered elsewhere"}${place}`;
    super("pending", `Call ${answer.call_id} of '${tool}' is ${answer.status}: ${why}. client.calls.wait(…) waits for its end.`);
    this.callId = answer.call_id;
    this.status = answer.status;
    this.loginUrl = answer.login_url ?? null;
  }
}

export class SessionFailed extends JackfieldError {
  constructor(message: string) {
    super("session_failed", message);
  }
}

/** The error that a response other than 2xx stands for. */
export function refusal(response: Response, body: unknown): GatewayError {
  const error = (body as Partial<ErrorAnswer> | undefined)?.error;
  const { status } = response;
  return new GatewayError(status, error?.code ?? "error", error?.message ?? `The gateway answered ${status}.`, error?.details ?? [], {
    param: error?.param ?? null,
    loginUrl: error?.login_url ?? null,
    retryAfter: retryAfter(response.headers.get("retry-after")),
  });
}

/** Milliseconds; of the form with a date, and of what is no number, one second. */
function retryAfter(header: string | null): number | null {
  if (header === null) return null;
  const seconds = Number(header);
  return Number.isFinite(seconds) && seconds >= 0 ? seconds * 1000 : 1000;
}

/** Whether a request may succeed later as it is: the gateway is away, busy, or slow. */
export function isAway(fault: unknown): boolean {
  return fault instanceof NoAnswer || (fault instanceof GatewayError && (fault.isAway || fault.status === 429));
}
