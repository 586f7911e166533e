import react from "@vitejs/plugin-react";
import { fileURLToPath } from "node:url";
import { defineConfig } from "vitest/config";

const here = (path: string): string => fileURLToPath(new URL(path, import.meta.url));

export default defineConfig({
  plugins: [react()],
  resolve: {
    alias: {
      "@jackfield/client": here("./packages/client/src/index.ts"),
      "@jackfield/react": here("./packages/react/src/index.ts"),
      // Only rjsf's helper for tests wants it, and it could not run under this page's policy.
      "@rjsf/validator-ajv8": here("./src/forms/validator.ts"),
    },
  },
  build: {
    outDir: here("../src/jackfield/console/dist"),
    emptyOutDir: true,
    target: "es2022",
    // Under its own address every chunk may be kept for ever: its name changes with what is in it.
    assetsDir: "assets",
    modulePreload: { polyfill: false },
  },
  server: { proxy: { "/api": "http://127.0.0.1:8420", "/v1": "http://127.0.0.1:8420", "/readyz": "http://127.0.0.1:8420" } },
  // Inlined, so that the alias above holds in tests too.
  test: { environment: "node", server: { deps: { inline: [/@rjsf/] } }, include: ["packages/*/test/**/*.test.ts?(x)", "test/**/*.test.ts?(x)"] },
});
