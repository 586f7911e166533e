import { built, type Connection } from "./connection.js";
import type { MemberRecord, MessageList, MessageRecord, ReadRecord, Routes, SpaceChange, SpaceEvent, SpaceRecord } from "./generated.js";
import { newId } from "./ids.js";

const STREAM_ENDS = ["space.message", "space.message.failed", "tool.done", "tool.error"];

export interface SendOptions {
  /** As whom: for administrators, as other keys speak as themselves. */
  entityId?: string;
  metadata?: Record<string, unknown>;
  /** The message's id, made here unless given, so that a retry posts it once. */
  id?: string;
}

/** Where people and agents see messages and visible calls. */
export class Spaces {
  constructor(private readonly connection: Connection) {}

  async create(body: Routes["POST /api/spaces"]["body"] & {}): Promise<SpaceRecord> {
    return (await this.connection.request("POST /api/spaces", { body })).space;
  }

  async list(): Promise<SpaceRecord[]> {
    return (await this.connection.request("GET /api/spaces")).spaces;
  }

  async get(id: string): Promise<SpaceRecord> {
    return (await this.connection.request("GET /api/spaces/{id}", { path: { id } })).space;
  }

  async update(id: string, body: SpaceChange): Promise<SpaceRecord> {
    return (await this.connection.request("PATCH /api/spaces/{id}", { path: { id }, body })).space;
  }

  async delete(id: string): Promise<void> {
    await this.connection.request("DELETE /api/spaces/{id}", { path: { id } });
  }

  async members(id: string): Promise<MemberRecord[]> {
    return (await this.connection.request("GET /api/spaces/{id}/members", { path: { id } })).members;
  }

  async join(id: string, body: Routes["POST /api/spaces/{id}/members"]["body"]): Promise<MemberRecord> {
    return (await this.connection.request("POST /api/spaces/{id}/members", { path: { id }, body })).member;
  }

  async leave(id: string, entityId: string): Promise<void> {
    await this.connection.request("DELETE /api/spaces/{id}/members/{entityId}", { path: { id, entityId } });
  }

  /** Messages in order: the first after `afterSeq`, or else the newest, of those before `beforeSeq`. */
  messages(id: string, query: NonNullable<Routes["GET /api/spaces/{id}/messages"]["query"]> = {}): Promise<MessageList> {
    return this.connection.request("GET /api/spaces/{id}/messages", { path: { id }, query });
  }

  /** Posts a message, once, however often the request is sent; agents in the space find it in their inbox. */
  async send(id: string, content: string, options: SendOptions = {}): Promise<MessageRecord> {
    const body = { id: newId("sent"), ...options, content };
    return (await this.connection.request("POST /api/spaces/{id}/messages", { path: { id }, body }, { repeatable: true })).message;
  }

  /** Marks everything as read up to a number or a message, else all there is. The mark never moves back. */
  markRead(id: string, body: Routes["PATCH /api/spaces/{id}/read"]["body"] & {} = {}): Promise<ReadRecord> {
    return this.connection.request("PATCH /api/spaces/{id}/read", { path: { id }, body });
  }

  /**
   * Events of a space after number `afterSeq`, or from now on, across reconnects, until the iteration is left. Durable
   * events come once each and in order. Of a text that is being written, `delta` is what is new and `text` all of it.
   */
  async *follow(id: string, { afterSeq, signal }: { afterSeq?: number; signal?: AbortSignal } = {}): AsyncGenerator<SpaceEvent, void> {
    const [, path] = built("GET /api/spaces/{id}/stream", { path: { id }, query: afterSeq === undefined ? {} : { afterSeq } });
    const texts = new PartialTexts();
    let last = -1;
    for await (const frame of this.connection.follow(path, { signal })) {
      const event = texts.merged(frame.data as SpaceEvent);
      if (event === null || (event.seq != null && event.seq <= last)) continue;
      last = event.seq ?? last;
      yield event;
    }
  }
}

/** The texts that are being written, by stream: after a reconnect they come again, and a reader gets each part once. */
class PartialTexts {
  private readonly texts = new Map<string, string>();

  merged(event: SpaceEvent): SpaceEvent | null {
    if (event.type === "connected") for (const stream of this.texts.keys()) if (!event.streams?.includes(stream)) this.texts.delete(stream);
    const stream = event.streamId;
    if (stream == null) return event;
    if (STREAM_ENDS.includes(event.type)) this.texts.delete(stream);
    return event.offset == null || STREAM_ENDS.includes(event.type) ? event : this.mergedPart(event, stream);
  }

  private mergedPart(event: SpaceEvent, stream: string): SpaceEvent | null {
    const known = this.texts.get(stream);
    if (event.phase === "start" && known !== undefined) return null;
    const before = known ?? "";
    let text = textWith(before, event);
    if (event.phase === "done") {
      this.texts.delete(stream);
      text = event.text ?? text;
    } else {
      this.texts.set(stream, text);
      if (text === known) return null;
    }
    return text.startsWith(before) ? { ...event, text, delta: text.slice(before.length) } : { ...event, text };
  }
}

/** `text = text[:offset] + delta`, which repeated deltas and snapshots may be given again; offsets count code points. */
export function textWith(text: string, { offset, delta }: Pick<SpaceEvent, "offset" | "delta">): string {
  const at = offset ?? 0;
  if (at >= text.length) return text + (delta ?? "");
  return (/[\ud800-\udfff]/.test(text) ? [...text].slice(0, at).join("") : text.slice(0, at)) + (delta ?? "");
}
