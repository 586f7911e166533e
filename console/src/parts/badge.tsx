/**
 * A state in words and colour: `<Badge tone="good">up</Badge>`. Tones: good, bad, wait (somebody has to do something),
 * busy (it is going on) and none. `<CallStatus status={call.status} />` and `<SourceState status={source.status} />`
 * have the words and tones of calls and sources, so that a state reads the same on every page. `toneOf` gives the tone
 * alone. Never colour without a word.
 */
import type { ReactNode } from "react";

export type Tone = "good" | "bad" | "wait" | "busy" | "none";

export function Badge({ tone, children, title }: { tone: Tone; children: ReactNode; title?: string }): ReactNode {
  return (
    <span className={`badge ${tone}`} title={title}>
      {children}
    </span>
  );
}

const CALLS: Record<string, readonly [Tone, string]> = {
  running: ["busy", "running"],
  waiting: ["wait", "waiting for an answer"],
  pending: ["wait", "waiting for an answer"],
  pending_approval: ["wait", "needs approval"],
  pending_login: ["wait", "needs a login"],
  completed: ["good", "completed"],
  failed: ["bad", "failed"],
  refused: ["bad", "refused"],
  rejected: ["bad", "rejected"],
  expired: ["none", "expired"],
  cancelled: ["none", "cancelled"],
};
const SOURCES: Record<string, readonly [Tone, string]> = {
  up: ["good", "up"],
  down: ["bad", "down"],
  faulty: ["bad", "faulty"],
  login_needed: ["wait", "login needed"],
  starting: ["busy", "starting"],
};

export function toneOf(status: string): Tone {
  return (CALLS[status] ?? SOURCES[status])?.[0] ?? "none";
}

/** All states that a call can be in, for filters. */
export const CALL_STATES = Object.keys(CALLS);

export function CallStatus({ status, count }: { status: string; count?: number | undefined }): ReactNode {
  const [tone, word] = CALLS[status] ?? ["none", status];
  return (
    <Badge tone={tone}>
      {word}
      {(count ?? 1) > 1 && ` ${count} times`}
    </Badge>
  );
}

export function SourceState({ status }: { status: string }): ReactNode {
  const [tone, word] = SOURCES[status] ?? ["none", status.replaceAll("_", " ")];
  return <Badge tone={tone}>{word}</Badge>;
}
