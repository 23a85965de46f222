// The code editor: CodeMirror in place of the text area of a source. The text area is hidden, stays the field of the form and
// always has the text. Without this script the text area works alone.
import {
  history, historyKeymap, indentWithTab, moveLineDown, moveLineUp, standardKeymap, toggleComment, toggleTabFocusMode,
} from "@codemirror/commands";
import { javascriptLanguage, typescriptLanguage } from "@codemirror/lang-javascript";
import { pythonLanguage } from "@codemirror/lang-python";
import { bracketMatching, HighlightStyle, indentOnInput, indentUnit, syntaxHighlighting } from "@codemirror/language";
import { lintGutter, lintKeymap, setDiagnostics } from "@codemirror/lint";
import { Compartment, EditorState } from "@codemirror/state";
import { EditorView, keymap, lineNumbers } from "@codemirror/view";
import { tags } from "@lezer/highlight";

/** Language and indentation by the value of the language field. */
const LANGUAGES = {
  PYTHON: [pythonLanguage, "    "],
  TYPESCRIPT: [typescriptLanguage, "  "],
  JAVASCRIPT: [javascriptLanguage, "  "],
};

const colours = HighlightStyle.define([
  { tag: [tags.keyword, tags.self, tags.bool, tags.null, tags.atom], color: "var(--jk)" },
  { tag: [tags.string, tags.special(tags.string), tags.regexp], color: "var(--js)" },
  { tag: tags.number, color: "var(--jn)" },
  { tag: tags.comment, color: "var(--muted)" },
  { tag: tags.definition(tags.function(tags.variableName)), fontWeight: "bold" },
]);

const theme = EditorView.theme({
  "&": { border: "1px solid var(--edge)", borderRadius: "6px", backgroundColor: "var(--sunken)", color: "var(--text)", maxHeight: "44rem" },
  "&.cm-focused": { outline: "none" },
  ".cm-scroller": { fontFamily: "var(--mono)", fontSize: "max(0.9em, 0.86rem)", lineHeight: "1.45", minHeight: "12rem" },
  ".cm-content": { caretColor: "var(--text)" },
  ".cm-gutters": { backgroundColor: "var(--sunken)", color: "var(--muted)", borderRight: "1px solid var(--line)" },
  "&.cm-focused .cm-matchingBracket": { backgroundColor: "var(--accent-soft)", outline: "1px solid var(--edge)" },
  "&.cm-focused .cm-nonmatchingBracket": { backgroundColor: "var(--bad-soft)" },
  ".cm-tooltip, .cm-panels": { backgroundColor: "var(--surface)", color: "var(--text)", borderColor: "var(--edge)" },
  ".cm-diagnostic-error": { borderLeftColor: "var(--bad)" },
  ".cm-panel.cm-panel-lint ul [aria-selected]": { backgroundColor: "var(--accent-soft)", color: "var(--text)" },
  // In place of images, which the policy of the pages forbids in style sheets.
  ".cm-lintRange-error": { backgroundImage: "none", textDecoration: "underline wavy var(--bad)" },
  ".cm-lint-marker-error": { content: "normal", borderRadius: "50%", backgroundColor: "var(--bad)" },
});

/** `Ctrl-Enter` is left to the page, which sends the form. */
const keys = [
  indentWithTab, ...lintKeymap, ...historyKeymap, ...standardKeymap,
  { key: "Mod-/", run: toggleComment },
  { key: "Alt-ArrowUp", run: moveLineUp },
  { key: "Alt-ArrowDown", run: moveLineDown },
  { key: "Ctrl-m", mac: "Shift-Alt-m", run: toggleTabFocusMode },
];

/** A letter in place of selected text. The browser would copy the colour of the text into a style, which the policy forbids. */
const replacing = EditorView.domEventHandlers({
  beforeinput: (event, view) => {
    const isLetter = event.inputType === "insertText" && event.data && !event.isComposing && !view.composing;
    if (!isLetter || view.state.selection.main.empty) return false;
    view.dispatch(view.state.replaceSelection(event.data), { userEvent: "input.type", scrollIntoView: true });
    return true;
  },
});

/** Problems of the last check or trial, from elements with a line, at the lines of the document. */
function problemsAt(doc) {
  const found = new Map();
  for (const element of document.querySelectorAll("[data-problem-line]")) {
    const line = doc.line(Math.min(Math.max(Number(element.dataset.problemLine), 1), doc.lines));
    const message = element.textContent.trim();
    const indent = /^\s*/.exec(line.text)[0].length;
    const from = indent === line.length ? line.from : line.from + indent;
    found.set(`${line.number} ${message}`, { from, to: line.to, severity: "error", message });
  }
  return [...found.values()].sort((a, b) => a.from - b.from);
}

/** The parts of the editor that depend on its language. */
function speaking(select) {
  const [language, unit] = LANGUAGES[select?.value] ?? [[], "  "];
  return [language, indentUnit.of(unit)];
}

/** The editor that was shown last, by the id of its text area: a sent form is replaced in place. */
const last = new Map();

function mount(area) {
  const label = area.labels[0];
  const select = area.form.elements.namedItem("language");
  const speech = new Compartment();
  const host = document.createElement("div");
  host.className = "code-editor";
  // Styles in a shadow root are constructed style sheets, which the policy of the pages allows.
  const root = host.attachShadow({ mode: "open" });
  const hint = area.form.querySelector("[data-code-hint]");
  const extensions = [
    lineNumbers(), history(), bracketMatching(), indentOnInput(), lintGutter(),
    speech.of(speaking(select)), syntaxHighlighting(colours), theme, replacing, keymap.of(keys),
    EditorView.contentAttributes.of({
      tabindex: "0",
      "aria-label": label?.textContent.trim() ?? "Source",
      "aria-description": hint?.textContent.trim() ?? "",
    }),
    EditorView.updateListener.of((update) => {
      if (!update.docChanged) return;
      const text = view.state.doc.toString();
      if (area.value === text) return;
      area.value = text;
      area.dispatchEvent(new Event("input", { bubbles: true }));
    }),
  ];
  const view = new EditorView({ root, parent: root, state: EditorState.create({ doc: area.value, extensions }) });
  area.after(host);
  area.hidden = true;
  // A hidden field cannot show that it is required; the server says it.
  area.required = false;
  if (hint) hint.hidden = false;

  view.dispatch(setDiagnostics(view.state, problemsAt(view.state.doc)));
  const before = last.get(area.id);
  if (before) {
    const { anchor, head } = before.view.state.selection.main;
    const end = view.state.doc.length;
    view.dispatch({ selection: { anchor: Math.min(anchor, end), head: Math.min(head, end) } });
    view.scrollDOM.scrollTop = before.top;
    if (before.isFocused) view.focus();
    before.view.destroy();
  }
  const kept = { view, isFocused: false, top: 0 };
  last.set(area.id, kept);

  const isIn = () => kept.isFocused = view.hasFocus;
  area.form.addEventListener("submit", () => {
    isIn();
    kept.top = view.scrollDOM.scrollTop;
    area.value = view.state.doc.toString();
  }, true);
  area.form.addEventListener("formdata", ({ formData }) => formData.set(area.name, view.state.doc.toString()));
  // Another script set the text.
  area.addEventListener("input", () => {
    if (area.value === view.state.doc.toString()) return;
    view.dispatch({ changes: { from: 0, to: view.state.doc.length, insert: area.value } });
  });
  select?.addEventListener("change", () => view.dispatch({ effects: speech.reconfigure(speaking(select)) }));
  label?.addEventListener("click", () => view.focus());
  // Typed letters are no keys of the page.
  host.addEventListener("keydown", (event) => {
    if (!event.ctrlKey && !event.metaKey && !event.altKey) event.stopPropagation();
  });
}

function mountAll() {
  for (const area of document.querySelectorAll("textarea[data-code]:not([hidden])")) mount(area);
}

mountAll();
new MutationObserver(mountAll).observe(document.getElementById("main"), { childList: true, subtree: true });
