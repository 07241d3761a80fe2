// Published claims and what was found of them.
function fillClaims() {
  const rows = data.claims.flatMap((file) => file.rows);
  at("claims").hidden = !rows.length;
  const several = new Set(rows.map((row) => row.model)).size > 1;
  fillTable("claims-table", [{ title: "Claim", text: true, wide: true }, { title: "Source", text: true, wide: true }, { title: "Published", text: true, wide: true },
    { title: "Found here", text: true, wide: true }, { title: "Verdict", text: true }, { title: "Why", text: true, wide: true }, { title: "Command", text: true, wide: true }],
    rows.map((row) => [row.id + ": " + row.claim + (several && row.model ? " (on " + row.model + ")" : ""), row.source, row.published, row.found, row.verdict, row.why, row.command]));
}
