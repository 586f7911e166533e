import { AbstractAgent, type BaseEvent, type RunAgentInput } from "@ag-ui/client";
import { from, type Observable } from "rxjs";
import type { Client } from "@jackfield/react";
import { runInSpace } from "@jackfield/react/ag-ui";

/** An agent of AG-UI that is a space: `await new SpaceAgent(client, "lobby").runAgent()`. */
export class SpaceAgent extends AbstractAgent {
  constructor(
    private readonly client: Client,
    private readonly spaceId: string,
  ) {
    super({ threadId: spaceId });
  }

  run(input: RunAgentInput): Observable<BaseEvent> {
    return from(runInSpace(this.client, this.spaceId, input)) as unknown as Observable<BaseEvent>;
  }
}
