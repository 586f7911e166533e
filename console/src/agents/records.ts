/** Agents as the gateway shows them. */

export interface Cycle {
  id: string;
  number: number;
  status: string;
  summary: string | null;
  reason: string | null;
  consumed: string[];
  createdAt: string;
  finishedAt: string | null;
}

export interface Agent {
  id: string;
  name: string;
  description: string;
  instructions: string;
  model: string | null;
  tools: string[];
  spaces: string[];
  maxSteps: number;
  timeout: number;
  origin: "config" | "api";
  owner: string | null;
  status: "asleep" | "awake";
  enabled: boolean;
  lastCycle: Cycle | null;
  updatedAt: string;
}

export interface InboxEvent {
  eventId: string;
  type: string;
  timestamp: string;
  status: string;
  data: unknown;
}

/** When it last did something; null: never yet. */
export function lastActivity({ lastCycle }: Agent): string | null {
  return lastCycle === null ? null : (lastCycle.finishedAt ?? lastCycle.createdAt);
}
