// CodeMirror for YAML, in the colours of the theme.
import { defaultKeymap, history, historyKeymap, indentWithTab } from "@codemirror/commands";
import { yaml } from "@codemirror/lang-yaml";
import { HighlightStyle, syntaxHighlighting } from "@codemirror/language";
import { setDiagnostics } from "@codemirror/lint";
import { EditorState } from "@codemirror/state";
import { EditorView, keymap, lineNumbers } from "@codemirror/view";
import { tags } from "@lezer/highlight";

const look = EditorView.theme({
  "&": { height: "100%", color: "var(--ink)", backgroundColor: "var(--panel)", fontSize: "12.5px" },
  ".cm-scroller": { fontFamily: "var(--mono)", lineHeight: "1.55" },
  ".cm-content": { caretColor: "var(--ink)", padding: "8px 0" },
  ".cm-cursor": { borderLeftColor: "var(--ink)" },
  ".cm-gutters": { backgroundColor: "var(--panel)", color: "var(--ink-3)", border: "0" },
  "&.cm-focused": { outline: "2px solid var(--accent)", outlineOffset: "-2px" },
  "&.cm-focused .cm-selectionBackground, .cm-selectionBackground": { backgroundColor: "var(--accent-soft) !important" },
  ".cm-lintRange-error": { backgroundImage: "none", textDecoration: "underline wavy var(--failed)" },
  ".cm-tooltip": { backgroundColor: "var(--raised)", color: "var(--ink)", border: "1px solid var(--line)" },
  ".cm-diagnostic-error": { borderLeft: "3px solid var(--failed)" },
});
const colours = HighlightStyle.define([
  { tag: [tags.propertyName, tags.definition(tags.propertyName)], color: "var(--accent)" },
  { tag: tags.comment, color: "var(--ink-3)", fontStyle: "italic" },
  { tag: [tags.string, tags.content], color: "var(--ink)" },
  { tag: [tags.number, tags.bool, tags.null, tags.keyword], color: "var(--success)" },
]);

export interface OpenEditor {
  setFaults: (faults: { line?: number | null; column?: number | null; detail: string; help?: string | null }[]) => void;
  /** Replaces the text, unless it is that already. */
  setText: (text: string) => void;
  close: () => void;
}

export function openEditor(root: ShadowRoot, text: string, readonly: boolean, changed: (text: string) => void): OpenEditor {
  const view = new EditorView({
    root,
    parent: root,
    state: EditorState.create({
      doc: text,
      extensions: [
        lineNumbers(),
        history(),
        keymap.of([...defaultKeymap, ...historyKeymap, indentWithTab]),
        yaml(),
        look,
        syntaxHighlighting(colours),
        EditorState.readOnly.of(readonly),
        EditorView.contentAttributes.of({ "aria-label": "Workflow as YAML" }),
        EditorView.updateListener.of((update) => update.docChanged && changed(update.state.doc.toString())),
      ],
    }),
  });
  return {
    setFaults(faults) {
      const found = faults
        .filter((fault) => fault.line)
        .map((fault) => {
          const line = view.state.doc.line(Math.max(1, Math.min(view.state.doc.lines, fault.line!)));
          const from = Math.min(line.to, line.from + Math.max(0, (fault.column ?? 1) - 1));
          return { from, to: Math.max(from, line.to), severity: "error" as const, message: fault.help ? `${fault.detail}: ${fault.help}` : fault.detail };
        });
      view.dispatch(setDiagnostics(view.state, found));
    },
    setText(text) {
      if (text !== view.state.doc.toString()) view.dispatch({ changes: { from: 0, to: view.state.doc.length, insert: text } });
    },
    close: () => view.destroy(),
  };
}
