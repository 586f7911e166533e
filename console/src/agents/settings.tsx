/**
 * What an agent is: model, instructions, tools, spaces, limits. An administrator edits those of an agent that was made
 * over the API in place; one of the config is changed there, and the page says so.
 */
import { useState, type FormEvent, type ReactNode } from "react";
import { Link } from "wouter";
import { client, useData } from "../data";
import { useMay } from "../identity";
import { Facts } from "../parts/facts";
import { Fault, Section } from "../parts/states";
import { toast } from "../parts/toast";
import { LongText } from "../parts/tree";
import { Unsaved } from "../parts/unsaved";
import { safeText } from "../safe-text";
import type { Agent } from "./records";

export function AgentSettings({ agent, path, onChange }: { agent: Agent; path: string; onChange: () => void }): ReactNode {
  const isAdmin = useMay("admin");
  const [isOpen, setIsOpen] = useState(false);
  const canEdit = isAdmin && agent.origin === "api";
  const actions = canEdit && !isOpen && (
    <button type="button" onClick={() => setIsOpen(true)}>
      Edit settings
    </button>
  );
  return (
    <Section title="Settings" actions={actions}>
      {isOpen ? <Editor agent={agent} path={path} onDone={() => (setIsOpen(false), onChange())} onCancel={() => setIsOpen(false)} /> : <Shown agent={agent} />}
      {isAdmin && agent.origin === "config" && (
        <p className="quiet">
          This agent is in the config: change <code>[agents.{safeText(agent.id, 80)}]</code> there. Its memories, goals and plans can be edited here.
        </p>
      )}
    </Section>
  );
}

function Shown({ agent }: { agent: Agent }): ReactNode {
  return (
    <>
      <Facts
        facts={[
          ["Model", agent.model === null ? "the default" : safeText(agent.model, 80)],
          ["Tools", agent.tools.length === 0 ? "only its own" : safeText(agent.tools.join(", "), 1_000)],
          [
            "Spaces",
            agent.spaces.length === 0
              ? "none"
              : agent.spaces.map((space) => (
                  <span key={space}>
                    <Link href={`/spaces/${encodeURIComponent(space)}`}>{safeText(space, 60)}</Link>{" "}
                  </span>
                )),
          ],
          ["Steps at most", agent.maxSteps],
          ["Made by", agent.origin === "config" ? "the config" : safeText(agent.owner ?? "an administrator", 80)],
        ]}
      />
      <h3>Instructions</h3>
      {agent.instructions === "" ? <p className="quiet">None.</p> : <LongText text={agent.instructions} most={1_200} />}
    </>
  );
}

function Editor({ agent, path, onDone, onCancel }: { agent: Agent; path: string; onDone: () => void; onCancel: () => void }): ReactNode {
  const [draft, setDraft] = useState({ instructions: agent.instructions, description: agent.description, model: agent.model ?? "", tools: agent.tools.join("\n"), spaces: agent.spaces.join("\n") });
  const [fault, setFault] = useState<Error | null>(null);
  const [isBusy, setIsBusy] = useState(false);
  const { data: models } = useData<{ data: { id: string }[] }>("/v1/models");
  const isChanged = JSON.stringify(changeOf(draft)) !== JSON.stringify(changeOf({ instructions: agent.instructions, description: agent.description, model: agent.model ?? "", tools: agent.tools.join("\n"), spaces: agent.spaces.join("\n") }));
  const names = [...new Set([...(models?.data.map((model) => model.id) ?? []), ...(agent.model === null ? [] : [agent.model])])];
  const save = async (event: FormEvent): Promise<void> => {
    event.preventDefault();
    setIsBusy(true);
    try {
      await client.patch(path, changeOf(draft));
      toast("The agent is changed; its next cycle begins with it.");
      onDone();
    } catch (refusal) {
      setFault(refusal as Error);
      setIsBusy(false);
    }
  };
  const set = (name: keyof typeof draft) => (event: { target: { value: string } }) => setDraft({ ...draft, [name]: event.target.value });
  return (
    <form className="stack-small agent-form" onSubmit={(event) => void save(event)}>
      <label>
        Instructions
        <textarea rows={Math.min(20, 4 + draft.instructions.split("\n").length)} value={draft.instructions} onChange={set("instructions")} />
      </label>
      <label>
        Description
        <input value={draft.description} onChange={set("description")} />
      </label>
      <label>
        Model
        <select value={draft.model} onChange={set("model")}>
          <option value="">the default</option>
          {names.map((name) => (
            <option key={name}>{name}</option>
          ))}
        </select>
      </label>
      <label>
        Tools <span className="quiet">(a name or pattern on each line, such as * or github_*)</span>
        <textarea rows={3} value={draft.tools} onChange={set("tools")} />
      </label>
      <label>
        Spaces <span className="quiet">(an id on each line)</span>
        <textarea rows={2} value={draft.spaces} onChange={set("spaces")} />
      </label>
      {fault !== null && <Fault error={fault} />}
      <div className="actions">
        <Unsaved isDirty={isChanged && !isBusy} />
        <button type="button" onClick={onCancel}>
          Cancel
        </button>
        <button type="submit" className="primary" disabled={isBusy || !isChanged}>
          Save
        </button>
      </div>
    </form>
  );
}

const lines = (text: string): string[] => text.split("\n").map((line) => line.trim()).filter(Boolean);

function changeOf({ instructions, description, model, tools, spaces }: Record<"instructions" | "description" | "model" | "tools" | "spaces", string>): Record<string, unknown> {
  return { instructions, description, model: model === "" ? null : model, tools: lines(tools), spaces: lines(spaces) };
}
