// Published claims and what was found of them: a table for the traces of each model in a file.
function fillClaims() {
  at("claims").hidden = !data.claims.length;
  at("claims-tables").replaceChildren(...data.claims.flatMap((table) => {
    const part = make("div", undefined, "scroll whole");
    part.append(make("table"));
    fillTable(part.firstChild, [{ title: "Claim", text: true, wide: true }, { title: "Verdict", text: true }, { title: "Published", text: true, wide: true }, { title: "Found here", text: true, wide: true }],
      table.rows.map((row) => [claimCell(row), row.verdict, row.published, row.found]));
    return [make("h3", table.heading), make("p", table.headline[0], "caption"), part];
  }));
}

// What takes more words than a table has room for is folded.
function claimCell(row) {
  const cell = document.createDocumentFragment();
  const more = make("details");
  more.append(make("summary", "why, source, command"), make("p", row.why), make("p", row.source));
  if (row.command) more.append(make("pre", row.command));
  cell.append(row.id + ": " + row.claim, more);
  return cell;
}
