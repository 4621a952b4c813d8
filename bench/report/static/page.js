"use strict";
const WORDS = JSON.parse(document.getElementById("words")?.textContent || "{}");
const said = (english, values = {}) => (WORDS[english] ?? english).replace(/\{(\w+)\}/g, (_, name) => values[name]);
const wireTables = () => {
  const make = (tag, text, props) => Object.assign(document.createElement(tag), { textContent: text }, props);
  const state = new Map(new URLSearchParams(location.hash.startsWith("#?") ? location.hash.slice(2) : ""));
  const remember = (key, value) => {
    if (value) state.set(key, value); else state.delete(key);
    history.replaceState(null, "", "#?" + new URLSearchParams([...state]));
  };
  const QUIET = new Set(["same", "can't tell"]);

  const SCALES = {
    "": 1, s: 1, ms: 1e-3, "µs": 1e-6, ns: 1e-9, B: 1, KiB: 2 ** 10, MiB: 2 ** 20, GiB: 2 ** 30, TiB: 2 ** 40, "%": 0.01, "×": 1,
    k: 1e3, M: 1e6, G: 1e9, T: 1e12,
  };
  const NUMBER = /^([+-]?[\d.]+(?:e[+-]?\d+)?)(?:–[\d.]+)?\s*(?:\/ ([\d.e+-]+)|([^\s\d]*))/;
  const valueOf = (cell, numeric) => {
    if (cell.classList.contains("none")) return null;
    const text = (cell.classList.contains("vs") ? cell.querySelector("b") : cell)?.textContent.trim() ?? "";
    if (text.startsWith(">")) return Infinity;
    const [, number, limit, unit] = NUMBER.exec(text) || [];
    if (number === undefined) return text;
    if (limit) return Number(number) / Number(limit);
    const scale = SCALES[unit] ?? (/^[kMGT](FLOP|B\/|cycles|tokens)/.test(unit) ? SCALES[unit[0]] : numeric ? 1 : undefined);
    return scale === undefined ? text : Number(number) * scale;
  };
  const compare = (a, b) => {
    if (a === null || b === null) return (a === null) - (b === null);
    if (typeof a !== typeof b) return typeof a === "number" ? -1 : 1;
    return typeof a === "number" ? a - b : a.localeCompare(b);
  };
  const wordOf = (cell) => {
    if (!cell.classList.contains("vs") || cell.classList.contains("none")) return cell.textContent.trim();
    return cell.firstChild.textContent.trim().slice(2);
  };
  const toggle = (label, pressed, act) => {
    const button = make("button", label, { type: "button" });
    button.setAttribute("aria-pressed", pressed);
    button.addEventListener("click", () => button.setAttribute("aria-pressed", act()));
    return button;
  };

  const labels = document.head.appendChild(document.createElement("style")).sheet;
  // On a phone the cells of a row stand one below the other, each below the head of its column.
  const stack = (table, key, heads) => {
    table.classList.add("stack");
    const rules = heads.map((head, column) =>
      `#${CSS.escape(key)} .stack>tbody>tr:first-child>:nth-child(${column + 1})::before{content:${JSON.stringify(head.textContent.trim())}}`);
    labels.insertRule(`@media screen and (max-width:480px){${rules.join("")}}`);
  };

  // So do those of other wide tables, where each cell brings the head along.
  for (const table of document.querySelectorAll(".scroll>table:not(.all)")) {
    const own = [...table.tHead.rows[0].cells].map((head) => head.textContent.trim());
    table.classList.add("piled");
    for (const row of table.tBodies[0].rows) {
      let column = 0;
      for (const cell of row.cells) {
        if (cell.colSpan === 1 && own[column]) cell.dataset.h = own[column];
        column += cell.colSpan;
      }
    }
  }

  for (const section of document.querySelectorAll(".rows")) {
    const table = section.querySelector("table.all");
    const bodies = [...table.tBodies];
    const heads = [...table.tHead.rows[0].cells];
    const tools = section.querySelector(".tools");
    const key = section.id;
    stack(table, key, heads);
    const search = make("input", "", { type: "search", placeholder: said("Search rows"), ariaLabel: said("Search rows") });
    const shown = make("span", "", { role: "status" });
    const chosen = new Set((state.get(key + ".s") || "").split(",").filter(Boolean));
    const picked = new Map();
    let loud = state.get(key + ".n") === "1";
    const texts = new Map();
    const textOf = (body) => {
      if (!texts.has(body)) texts.set(body, (body.rows[0].textContent + " " + body.querySelector("summary").textContent).toLowerCase());
      return texts.get(body);
    };
    const isNoise = (body) => {
      const words = [...body.rows[0].querySelectorAll("td.vs:not(.none)")].map(wordOf);
      return words.length > 0 && words.every((word) => QUIET.has(word));
    };
    const noise = new Set(bodies.filter(isNoise));
    const apply = () => {
      const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
      let count = 0;
      for (const body of bodies) {
        const fits = (!chosen.size || chosen.has(body.dataset.s)) && !(loud && noise.has(body))
          && [...picked].every(([column, value]) => wordOf(body.rows[0].cells[column]) === value)
          && words.every((word) => textOf(body).includes(word));
        body.hidden = !fits;
        count += fits;
      }
      shown.textContent = count === bodies.length ? "" : said("{count} of {all} rows shown, {hidden} hidden", { count, all: bodies.length, hidden: bodies.length - count });
    };
    const facet = (head, column) => {
      const counts = new Map();
      for (const body of bodies) {
        const word = wordOf(body.rows[0].cells[column]);
        counts.set(word, (counts.get(word) || 0) + 1);
      }
      if (counts.size < 2 || counts.size > 60) return;
      const name = head.textContent;
      const select = make("select", "", { ariaLabel: name });
      select.append(new Option(said("{name}: all", { name }), ""));
      for (const [word, n] of [...counts].sort(([a], [b]) => a.localeCompare(b, undefined, { numeric: true }))) {
        select.append(new Option(said("{name}: {word} ({n})", { name, word, n }), word));
      }
      const old = state.get(`${key}.f${column}`);
      if (old && counts.has(old)) { select.value = old; picked.set(column, old); }
      select.addEventListener("change", () => {
        if (select.value) picked.set(column, select.value); else picked.delete(column);
        remember(`${key}.f${column}`, select.value);
        apply();
      });
      tools.append(select);
    };

    tools.append(search);
    for (const status of new Set(bodies.map((body) => body.dataset.s))) {
      const label = `${status === "oom" ? "OOM" : status} ${bodies.filter((body) => body.dataset.s === status).length}`;
      tools.append(toggle(label, chosen.has(status), () => {
        if (!chosen.delete(status)) chosen.add(status);
        remember(key + ".s", [...chosen].join(","));
        apply();
        return chosen.has(status);
      }));
    }
    heads.forEach((head, column) => { if ("f" in head.dataset) facet(head, column); });
    if (noise.size) {
      tools.append(toggle(said("Hide noise ({n})", { n: noise.size }), loud, () => {
        loud = !loud;
        remember(key + ".n", loud ? "1" : "");
        apply();
        return loud;
      }));
    }
    tools.append(shown);
    tools.hidden = bodies.length < 4;
    search.value = state.get(key + ".q") || "";
    search.addEventListener("input", () => { remember(key + ".q", search.value); apply(); });

    const sort = (column, direction) => {
      const values = new Map(bodies.map((body) => [body, valueOf(body.rows[0].cells[column], heads[column].classList.contains("num"))]));
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

  // A phone shows the answer first; where there is room the list of runs is no longer than what it leads to.
  const list = document.querySelector(".runs details");
  if (list && matchMedia("(min-width:821px)").matches) list.open = true;

  const parts = [...document.querySelectorAll("section.workload[data-w]")];
  const names = [...new Set(parts.map((part) => part.dataset.w))];
  if (names.length > 1) {
    const select = make("select", "", { id: "workload", ariaLabel: said("Workload") });
    select.append(new Option(said("All workloads"), ""), ...names.map((name) => new Option(name, name)));
    const choose = () => { for (const part of parts) part.hidden = select.value !== "" && part.dataset.w !== select.value; };
    select.value = names.includes(state.get("w")) ? state.get("w") : "";
    select.addEventListener("change", () => { remember("w", select.value); choose(); });
    document.querySelector(".runs .page, .only").append(select);
    choose();
  }
};
