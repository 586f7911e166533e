import { type ReactNode } from "react";
import { Link } from "wouter";
import { useMay } from "../identity";
import { NotHere } from "../parts/states";
import "../style/fields.css";
import "../style/settings.css";
import { ForAdministrators } from "./access";
import { Config } from "./settings/config";
import { Hooks } from "./settings/hooks";
import { Limits } from "./settings/limits";
import { ModelPage, Models } from "./settings/models";
import { Notifications } from "./settings/notifications";

const PARTS: Record<string, readonly [string, () => ReactNode]> = {
  models: ["Models", () => <Models />],
  notifications: ["Notifications", () => <Notifications />],
  hooks: ["Hooks", () => <Hooks />],
  limits: ["Limits and switches", () => <Limits />],
  config: ["Config", () => <Config />],
};

/** How the gateway is set: models with a playground, notifications, hooks, limits, and the config in force. */
export default function SettingsPage({ part, name }: { part?: string | undefined; name?: string | undefined }): ReactNode {
  const isAdmin = useMay("admin");
  const current = part ?? "models";
  const shown = PARTS[current];
  if (shown === undefined) return <NotHere />;
  return (
    <div className="page">
      <h1>Settings</h1>
      <nav className="tabs" aria-label="Parts of the settings">
        {Object.entries(PARTS).map(([id, [words]]) => (
          <Link key={id} href={`/settings/${id}`} aria-current={id === current ? "true" : undefined}>
            {words}
          </Link>
        ))}
      </nav>
      {!isAdmin ? <ForAdministrators what={shown[0]} /> : current === "models" && name !== undefined ? <ModelPage key={name} name={name} /> : shown[1]()}
    </div>
  );
}
