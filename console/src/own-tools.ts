import { useEffect, useState } from "react";
import { type ToolComponent, type ToolRegistry } from "@jackfield/react";
import * as React from "react";
import { client } from "./data";
import { Fallback } from "./tools/fallback";
import { SHIPPED } from "./tools/shipped";

/** A module of tool components from the config's folder. */
export interface ToolModule {
  default: (jackfield: { React: typeof React; registerTool: (name: string, component: ToolComponent) => void }) => void;
}

const START: ToolRegistry = { by_name: SHIPPED, Fallback };

/** The included components, overridden by those from the config's folder. */
export function useOwnTools(isSignedIn: boolean): ToolRegistry {
  const [registry, setRegistry] = useState<ToolRegistry>(START);
  useEffect(() => {
    if (!isSignedIn) return;
    void loadModules().then((own) => {
      if (Object.keys(own).length > 0) setRegistry({ by_name: { ...SHIPPED, ...own }, Fallback });
    });
  }, [isSignedIn]);
  return registry;
}

async function loadModules(): Promise<Record<string, ToolComponent>> {
  const own: Record<string, ToolComponent> = {};
  try {
    const { modules } = await client.get<{ modules: string[] }>("/api/console/tools");
    for (const address of modules) {
      try {
        const module = (await import(/* @vite-ignore */ address)) as ToolModule;
        module.default({ React, registerTool: (name, component) => (own[name] = component) });
      } catch (fault) {
        console.error(`Could not load the tool component ${address}`, fault);
      }
    }
  } catch {
    // No folder configured.
  }
  return own;
}
