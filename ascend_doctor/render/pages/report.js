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
  field.parentElement.hidden = false;
  field.addEventListener("input", () => {
    const words = field.value.toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    for (const [cell, text] of cells) {
      const fits = words.every((word) => text.includes(word));
      cell.hidden = !fits;
      shown += fits;
    }
    document.getElementById("said").textContent = `${shown} of ${cells.length} nodes`;
  });
}
