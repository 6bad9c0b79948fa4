// Says what Microsoft's parser thinks of KQL. Each line of stdin is a query or command as a JSON string; each line of
// stdout is an object: its kind, its diagnostics, and the values of its literals in their order.
// The argument is the directory that package.json was installed into.
"use strict";
const path = require("path");
const readline = require("readline");

const library = path.join(path.resolve(process.argv[2]), "node_modules", "@kusto", "language-service-next");
require(path.join(library, "bridge.min.js"));
require(path.join(library, "Kusto.Language.Bridge.min.js"));
const { KustoCode, GlobalState, Syntax } = globalThis.Kusto.Language;

function listed(list) {
  return Array.from({ length: list.Count }, (_, at) => list.getItem(at));
}

function plain(boxed) {
  const value = globalThis.Bridge.unbox(boxed, true);
  if (value instanceof Date) return globalThis.System.DateTime.format(value, "yyyy-MM-ddTHH:mm:ss.fffffff");
  return typeof value === "number" && Number.isFinite(value) ? value : String(value);
}

function literals(root) {
  const found = [];
  Syntax.SyntaxElement.WalkNodes(root, (node) => {
    if (node instanceof Syntax.LiteralExpression || node instanceof Syntax.CompoundStringLiteralExpression) {
      found.push(plain(node.LiteralValue));
    }
  });
  return found;
}

readline.createInterface({ input: process.stdin, crlfDelay: Infinity }).on("line", (line) => {
  const code = KustoCode.ParseAndAnalyze(JSON.parse(line), GlobalState.Default);
  const diagnostics = listed(code.GetDiagnostics()).map((each) => `${each.Severity}: ${each.Message} (at ${each.Start})`);
  process.stdout.write(JSON.stringify({ kind: code.Kind, diagnostics, literals: literals(code.Syntax) }) + "\n");
});
