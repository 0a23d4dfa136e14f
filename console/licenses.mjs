// Writes the licences of the libraries that are part of the built console.
import { readFileSync, writeFileSync } from "node:fs";

const own = JSON.parse(readFileSync("package.json", "utf8"));
const texts = Object.keys(own.dependencies).sort().map((name) => {
  const { version, license } = JSON.parse(readFileSync(`node_modules/${name}/package.json`, "utf8"));
  return `${name} ${version}, ${license}\n\n${readFileSync(`node_modules/${name}/LICENSE`, "utf8").trim()}\n`;
});
writeFileSync("../gateway/console/dist/licenses.txt", `The console of cellgate contains these libraries.\n\n${texts.join("\n\n")}`);
