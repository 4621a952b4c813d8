"use strict";
(() => {
  const make = (tag, text, props) => Object.assign(document.createElement(tag), { textContent: text }, props);
  const state = new Map(new URLSearchParams(location.hash.startsWith("#?") ? location.hash.slice(2) : ""));
  const remember = (key, value) => {
    if (value) state.set(key, value); else state.delete(key);
    history.replaceState(null, "", "#?" + new URLSearchParams([...state]));
  };

  const copyButton = (text) => {
    const button = make("button", "Copy", { type: "button", className: "copy" });
    button.addEventListener("click", async () => {
      try {
        await navigator.clipboard.writeText(text);
        button.textContent = "Copied";
      } catch {
        button.textContent = "Select and copy";
      }
      setTimeout(() => { button.textContent = "Copy"; }, 1600);
    });
    return button;
  };
  const withCopy = (root) => {
    for (const block of root.querySelectorAll("pre.command")) {
      if (!block.querySelector(".copy")) block.append(copyButton(block.textContent));
    }
  };
  for (const section of document.querySelectorAll(".environment")) withCopy(section);
  document.addEventListener("toggle", (event) => {
    const evidence = event.target.open && event.target.querySelector(":scope > .evidence");
    if (!evidence) return;
    withCopy(evidence);
    if (!evidence.querySelector(":scope > .copy")) {
      const button = copyButton(event.target.querySelector("summary code").textContent);
      button.setAttribute("aria-label", "Copy the command");
      evidence.prepend(button);
    }
  }, true);

  const valueOf = (cell) => {
    if ("v" in cell.dataset) return cell.dataset.v === "" ? null : Number(cell.dataset.v);
    if (cell.classList.contains("none")) return null;
    const text = cell.textContent.trim();
    return text !== "" && Number.isFinite(Number(text)) ? Number(text) : text;
  };
  const compare = (a, b) => {
    if (a === null || b === null) return (a === null) - (b === null);
    return typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b));
  };

  for (const section of document.querySelectorAll(".rows")) {
    const table = section.querySelector("table.all");
    const bodies = [...table.tBodies];
    const tools = section.querySelector(".tools");
    const search = make("input", "", { type: "search", placeholder: "Filter rows", ariaLabel: "Filter rows" });
    const shown = make("span", "", { role: "status" });
    const key = section.id;
    const chosen = new Set((state.get(key + ".s") || "").split(",").filter(Boolean));
    const texts = new Map();
    const textOf = (body) => {
      if (!texts.has(body)) texts.set(body, (body.rows[0].textContent + " " + body.querySelector("summary").textContent).toLowerCase());
      return texts.get(body);
    };
    const apply = () => {
      const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
      let count = 0;
      for (const body of bodies) {
        const fits = (!chosen.size || chosen.has(body.dataset.s)) && words.every((word) => textOf(body).includes(word));
        body.hidden = !fits;
        count += fits;
      }
      shown.textContent = count === bodies.length ? "" : `${count} of ${bodies.length} rows shown, ${bodies.length - count} hidden`;
    };
    tools.append(search);
    for (const status of new Set(bodies.map((body) => body.dataset.s))) {
      const button = make("button", `${status === "oom" ? "OOM" : status} ${bodies.filter((body) => body.dataset.s === status).length}`, { type: "button" });
      button.setAttribute("aria-pressed", chosen.has(status));
      button.addEventListener("click", () => {
        if (!chosen.delete(status)) chosen.add(status);
        button.setAttribute("aria-pressed", chosen.has(status));
        remember(key + ".s", [...chosen].join(","));
        apply();
      });
      tools.append(button);
    }
    tools.append(shown);
    tools.hidden = bodies.length < 4;
    search.value = state.get(key + ".q") || "";
    search.addEventListener("input", () => { remember(key + ".q", search.value); apply(); });

    const heads = [...table.tHead.rows[0].cells];
    const sort = (column, direction) => {
      const values = new Map(bodies.map((body) => [body, valueOf(body.rows[0].cells[column])]));
      const ordered = [...bodies].sort((a, b) => {
        const x = values.get(a), y = values.get(b);
        return x === null || y === null ? compare(x, y) : direction * compare(x, y);
      });
      heads.forEach((head, i) => { if (i === column) head.setAttribute("aria-sort", direction > 0 ? "ascending" : "descending"); else head.removeAttribute("aria-sort"); });
      table.append(...ordered);
    };
    heads.forEach((head, column) => {
      const button = make("button", head.textContent, { type: "button" });
      button.addEventListener("click", () => {
        const direction = head.getAttribute("aria-sort") === "ascending" ? -1 : 1;
        remember(key + ".o", `${column}.${direction}`);
        sort(column, direction);
      });
      head.replaceChildren(button);
    });
    const order = /^(\d+)\.(-?1)$/.exec(state.get(key + ".o") || "");
    if (order && heads[order[1]]) sort(Number(order[1]), Number(order[2]));
    apply();
  }

  const openTarget = () => {
    const target = location.hash.startsWith("#r-") && document.getElementById(location.hash.slice(1));
    if (!target) return;
    target.hidden = false;
    target.querySelector("details").open = true;
    target.scrollIntoView({ block: "center" });
  };
  addEventListener("hashchange", openTarget);
  openTarget();

  const save = document.getElementById("save");
  save.hidden = false;
  save.addEventListener("click", () => {
    const blob = new Blob([document.getElementById("data").textContent], { type: "application/json" });
    const link = make("a", "", { href: URL.createObjectURL(blob), download: "report.json" });
    link.click();
    URL.revokeObjectURL(link.href);
  });
})();
