// Says below a chart what the mark in focus is; arrow keys go from mark to mark.
for (const svg of document.querySelectorAll("figure svg")) {
  const marks = [...svg.querySelectorAll("rect")];
  const said = svg.closest("figure").querySelector(".said");
  const show = (event) => {
    const mark = event.target.closest("rect");
    if (mark) said.textContent = mark.querySelector("title").textContent;
  };
  svg.addEventListener("pointerover", show);
  svg.addEventListener("focusin", show);
  svg.addEventListener("click", (event) => event.target.closest("rect")?.focus());
  svg.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1, Home: -marks.length, End: marks.length }[event.key];
    const at = marks.indexOf(document.activeElement);
    if (!step || at < 0) return;
    event.preventDefault();
    const next = marks[Math.max(0, Math.min(marks.length - 1, at + step))];
    marks[at].tabIndex = -1;
    next.tabIndex = 0;
    next.focus();
  });
}
