// The API's reference, from the gateway's OpenAPI document.
import { useEffect, useState } from "preact/hooks";
import { Bag } from "../api";
import { useGet } from "../live";
import { Badge, Card, Link, Page, Problem, Waiting } from "../ui";

const verbs = ["get", "post", "put", "patch", "delete"];

interface Operation extends Bag {
  path: string;
  verb: string;
}

function operationsOf(doc: Bag): Operation[] {
  return Object.entries(doc.paths as Bag).flatMap(([path, methods]) => verbs.filter((v) => methods[v]).map((verb) => ({ ...methods[verb], path, verb })));
}

const nameOf = (o: Operation) => o.operationId.split("_")[1];

const languages = ["curl", "grpcurl", "Go", "Python"];

// fill writes example values for the parameters of a path.
const fill = (path: string) => path.replace("{cell}", "cell1").replace("{namespace}", "cinder").replace("{decision_id}", "cell1.01M884EGRCFDGQECE31X1WB9C1").replace(/\{\w+\}/g, "1a5e0000-0000-4000-8000-000000000001");

const indent = (text: string, by: string) => text.split("\n").join("\n" + by);

function exampleOf(o: Operation, language: string): string {
  const body = o.requestBody?.content["application/json"].example;
  const json = body && JSON.stringify(body, null, 2);
  const url = location.origin + fill(o.path);
  const verb = o.verb.toUpperCase();
  const inPath: Bag = Object.fromEntries((o.parameters ?? []).filter((p: Bag) => p.in === "path").map((p: Bag) => [p.name, fill(`{${p.name}}`)]));
  const whole = o.operationId === "Hosts_PutFacts" ? { ...inPath, facts: body } : { ...inPath, ...body };
  const [service, method] = (o["x-grpc"] ?? "").split("/");
  switch (language) {
    case "curl":
      return `curl ${verb === "GET" ? "" : `-X ${verb} `}-H "Authorization: Bearer $TOKEN" '${url}'${json ? ` \\\n  -H 'Content-Type: application/json' -d '${json}'` : ""}`;
    case "grpcurl":
      return service ? `grpcurl -plaintext -H "authorization: Bearer $TOKEN" -d '${JSON.stringify(whole, null, 2)}' \\\n  127.0.0.1:9090 ${o["x-grpc"]}` : "This is served by HTTP alone.";
    case "Go":
      return [
        "// oapi-codegen -package cellgate -generate types,client -o cellgate.go openapi.json",
        json ? `body := strings.NewReader(\`${json}\`)` : "",
        `req, err := http.NewRequestWithContext(ctx, "${verb}", "${url}", ${json ? "body" : "nil"})`,
        "if err != nil {\n\treturn err\n}",
        'req.Header.Set("Authorization", "Bearer "+token)',
        json ? 'req.Header.Set("Content-Type", "application/json")' : "",
        "resp, err := http.DefaultClient.Do(req)",
      ].filter(Boolean).join("\n");
    default:
      return [
        "import requests",
        "",
        `answer = requests.request("${verb}", "${url}",`,
        '    headers={"Authorization": "Bearer " + token},',
        json ? `    json=${indent(json.replaceAll(": true", ": True").replaceAll(": false", ": False"), "    ")},` : "",
        "    timeout=30)",
        "answer.raise_for_status()",
        method === undefined ? "print(answer.text)" : "print(answer.json())",
      ].filter((l) => l !== "" || language === "").join("\n");
  }
}

// typeOf writes the type of a schema, with a link to what it names.
function Type({ schema }: { schema: Bag }) {
  if (schema.$ref) return <Link to={`/api/${schema.$ref.split("/").at(-1)}`}>{schema.$ref.split("/").at(-1)}</Link>;
  if (schema.type === "array") return <>list of <Type schema={schema.items} /></>;
  if (schema.type === "object" && typeof schema.additionalProperties === "object") return <>map to <Type schema={schema.additionalProperties} /></>;
  return <>{schema.format ?? schema.type}</>;
}

function boundsOf(s: Bag): string {
  const out: string[] = [];
  if (s.minimum !== undefined || s.maximum !== undefined) out.push(`${s.minimum ?? "−∞"} to ${s.maximum ?? "∞"}`);
  if (s.exclusiveMinimum !== undefined) out.push(`above ${s.exclusiveMinimum}`);
  if (s.maxLength) out.push(`at most ${s.maxLength} characters`);
  if (s.minItems) out.push(`at least ${s.minItems}`);
  if (s.maxItems) out.push(`at most ${s.maxItems}`);
  if (s.maxProperties) out.push(`at most ${s.maxProperties} pairs`);
  if (s.uniqueItems) out.push("no two alike");
  if (s.enum) out.push("one of " + s.enum.map((e: string) => e || '""').join(", "));
  if (s.pattern && s.format !== "int64" && s.format !== "uint64") out.push(`like ${s.pattern}`);
  return out.join("; ");
}

function Fields({ rows, label }: { rows: { name: string; schema: Bag; required: boolean; about?: string }[]; label: string }) {
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label={label}>
      <table>
        <thead><tr><th scope="col">Field</th><th scope="col">Type</th><th scope="col">Meaning</th></tr></thead>
        <tbody>
          {rows.map((r) => (
            <tr key={r.name}>
              <td><code>{r.name}</code>{r.required && <span class="quiet small"> required</span>}</td>
              <td><Type schema={r.schema} /></td>
              <td class="wide">{r.about ?? r.schema.description}{boundsOf(r.schema) && <div class="quiet small">{boundsOf(r.schema)}</div>}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

const fieldsOf = (schema: Bag) => Object.entries((schema.properties ?? {}) as Bag).map(([name, s]) => ({ name, schema: s, required: schema.required?.includes(name) ?? false }));

export function ReferencePage({ pick }: { pick: string }) {
  const got = useGet("/openapi.json");
  const [language, setLanguage] = useState(sessionStorage.getItem("cellgate.language") ?? "curl");
  useEffect(() => sessionStorage.setItem("cellgate.language", language), [language]);
  const doc = got.value;
  if (!doc) return <Page title="API">{got.error ? <Problem error={got.error} /> : <Waiting what="the description" />}</Page>;
  const operations = operationsOf(doc);
  const o = operations.find((x) => nameOf(x) === pick);
  const schema = doc.components.schemas[pick] as Bag | undefined;
  return (
    <Page title="API" actions={<a href="/openapi.json" download="openapi.json">OpenAPI 3.1</a>}>
      <div class="split">
        <nav class="contents" aria-label="Operations">
          {doc.tags.map((t: Bag) => (
            <div key={t.name}>
              <h2>{t.name}</h2>
              {operations.filter((x) => x.tags[0] === t.name).map((x) => <a key={x.operationId} href={`#/api/${nameOf(x)}`} aria-current={x === o ? "page" : undefined}>{nameOf(x)}</a>)}
            </div>
          ))}
        </nav>
        <div>
          {!o && !schema && <Card title={doc.info.title}><p>{doc.info.summary}</p><p>{doc.info.description}</p><p>{doc.components.responses.Error.description}</p></Card>}
          {schema && !o && (
            <Card title={pick}>
              <p class="lines">{schema.description}</p>
              {schema.enum ? <p>{schema.enum.map((v: string) => <code key={v} class="chip">{v}</code>)}</p> : <Fields rows={fieldsOf(schema)} label={`Fields of ${pick}`} />}
            </Card>
          )}
          {o && <OperationView key={o.operationId} o={o} doc={doc} language={language} setLanguage={setLanguage} />}
        </div>
      </div>
    </Page>
  );
}

function OperationView({ o, doc, language, setLanguage }: { o: Operation; doc: Bag; language: string; setLanguage: (l: string) => void }) {
  const body = o.requestBody?.content["application/json"].schema as Bag | undefined;
  const request = body?.$ref ? doc.components.schemas[body.$ref.split("/").at(-1)] : body;
  const answer = Object.values(o.responses["200"].content)[0] as Bag;
  const answered = answer.schema.$ref && doc.components.schemas[answer.schema.$ref.split("/").at(-1)];
  return (
    <>
      <Card title={nameOf(o)} extra={<span class="badges">{(o["x-roles"] ?? ["everybody"]).map((r: string) => <Badge key={r} tone="plain">{r}</Badge>)}</span>}>
        <p><code class="chip">{o.verb.toUpperCase()}</code> <code>{o.path}</code></p>
        {o["x-grpc"] && <p class="quiet">gRPC <code>{o["x-grpc"]}</code></p>}
        <p>{o.description ?? o.summary}</p>
      </Card>
      <Card title="Example" extra={<span class="tabs" role="group" aria-label="Language">{languages.map((l) => <button key={l} aria-pressed={l === language} onClick={() => setLanguage(l)}>{l}</button>)}</span>}>
        <pre tabIndex={0}>{exampleOf(o, language)}</pre>
      </Card>
      {o.parameters && <Card title="Parameters"><Fields label="Parameters" rows={o.parameters.map((p: Bag) => ({ name: `${p.name}`, schema: p.schema, required: p.required, about: (p.in === "path" ? "In the path. " : "") + (p.description ?? "") }))} /></Card>}
      {request && <Card title="Body">{request.description && <p class="lines">{request.description}</p>}{request.properties ? <Fields label="Fields of the body" rows={fieldsOf(request)} /> : <p>Any JSON object.</p>}</Card>}
      {answered && <Card title="Answer">{answered.description && <p class="lines">{answered.description}</p>}<Fields label="Fields of the answer" rows={fieldsOf(answered)} /></Card>}
      {o.responses.default && <p class="quiet small">{doc.components.responses.Error.description}</p>}
    </>
  );
}
