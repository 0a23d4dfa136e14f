import { defineConfig } from "vite";

// The built files keep their names: the gateway serves exactly these, by name. CELLGATE is
// the gateway that `npm run dev` asks.
export default defineConfig({
  oxc: { jsx: { runtime: "automatic", importSource: "preact" } },
  build: {
    outDir: "../gateway/console/dist",
    emptyOutDir: true,
    modulePreload: false,
    assetsInlineLimit: 0,
    rollupOptions: {
      output: { entryFileNames: "console.js", assetFileNames: "console[extname]", codeSplitting: false },
    },
  },
  server: { proxy: Object.fromEntries(["/v1", "/openapi.json", "/metrics"].map((p) => [p, process.env.CELLGATE ?? "http://127.0.0.1:8080"])) },
});
