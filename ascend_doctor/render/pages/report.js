for (const button of document.querySelectorAll(".copy")) {
  if (!navigator.clipboard) continue;
  button.hidden = false;
  button.addEventListener("click", async () => {
    const text = button.previousElementSibling.textContent;
    try {
      await navigator.clipboard.writeText(text);
      document.getElementById("said").textContent = "Copied";
      button.textContent = "Copied";
    } catch {
      button.textContent = "Select it and copy";
    }
    setTimeout(() => { button.textContent = "Copy"; }, 2000);
  });
}
const field = document.getElementById("filter");
if (field) {
  const cells = [...document.querySelectorAll(".nodes li")].map((cell) => [cell, cell.title.toLowerCase()]);
  const said = document.getElementById("chosen");
  const most = 8;
  field.parentElement.hidden = false;
  said.hidden = false;
  said.setAttribute("role", "status");
  said.textContent = `${cells.length} nodes; press a node to see what was found on it`;
  field.addEventListener("input", () => {
    const words = field.value.toLowerCase().split(/\s+/).filter(Boolean);
    const shown = [];
    for (const [cell, text] of cells) {
      const fits = words.every((word) => text.includes(word));
      cell.hidden = !fits;
      if (fits) shown.push(cell);
    }
    const names = shown.slice(0, most).map((cell) => cell.textContent);
    const more = shown.length > most ? `, and ${shown.length - most} more` : "";
    if (shown.length === 1) said.textContent = shown[0].title;
    else said.textContent = `${shown.length} of ${cells.length} nodes`
      + (words.length && shown.length ? `: ${names.join(", ")}${more}` : "");
  });
  document.querySelector(".nodes").addEventListener("click", (event) => {
    const cell = event.target.closest("li");
    if (cell) said.textContent = cell.title;
  });
}
