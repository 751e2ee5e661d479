const other = document.getElementById("other");
const start = (page) => {
  const words = page.dataset;
  const toggle = page.querySelector(".language");
  toggle.hidden = !other;
  toggle.addEventListener("click", () => {
    const next = other.content.firstElementChild;
    page.replaceWith(next);
    other.content.append(page);
    document.documentElement.lang = next.lang;
    document.title = next.dataset.title;
    if (!next.dataset.started) start(next);
    next.querySelector(".language").focus();
  });
  words.started = "yes";
  for (const button of page.querySelectorAll(".copy")) {
    if (!navigator.clipboard) continue;
    button.hidden = false;
    button.addEventListener("click", async () => {
      const { of } = button.dataset;
      const text = (of ? document.getElementById(of) : button.previousElementSibling).innerText.trim();
      try {
        await navigator.clipboard.writeText(text);
        document.getElementById("said").textContent = words.copied;
        button.firstChild.data = words.copied;
      } catch {
        button.firstChild.data = words.select;
      }
      setTimeout(() => { button.firstChild.data = words.copy; }, 2000);
    });
  }
  const field = document.getElementById("filter");
  if (field) {
    const cells = [...page.querySelectorAll(".nodes li")].map((cell) => [cell, cell.title.toLowerCase()]);
    const racks = [...page.querySelectorAll(".rack")];
    const said = document.getElementById("chosen");
    const most = 8;
    const fill = (text, ...values) => text.replace(/\{(\d)\}/g, (_, slot) => values[slot]);
    field.parentElement.hidden = false;
    said.hidden = false;
    said.setAttribute("role", "status");
    said.textContent = fill(said.dataset.all, cells.length);
    field.addEventListener("input", () => {
      const parts = field.value.toLowerCase().split(/\s+/).filter(Boolean);
      const shown = [];
      for (const [cell, text] of cells) {
        const fits = parts.every((word) => text.includes(word));
        cell.classList.toggle("out", !fits);
        if (fits) shown.push(cell);
      }
      const left = new Set(shown.map((cell) => cell.closest(".rack")));
      for (const rack of racks) rack.hidden = !left.has(rack);
      const names = shown.slice(0, most).map((cell) => cell.textContent);
      const more = shown.length > most ? `, ${fill(said.dataset.more, shown.length - most)}` : "";
      if (shown.length === 1) said.textContent = shown[0].title;
      else said.textContent = fill(said.dataset.shown, shown.length, cells.length)
        + (parts.length && shown.length ? `: ${names.join(", ")}${more}` : "");
    });
    document.querySelector(".racks").addEventListener("click", (event) => {
      const cell = event.target.closest("li");
      if (cell) said.textContent = cell.title;
    });
  }
};
start(document.getElementById("page"));
