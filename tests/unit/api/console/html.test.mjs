import assert from "node:assert/strict";
import { test } from "node:test";

import { html } from "../../../../sinks/switchgear_api/console/assets/js/html.js";
import { StateShape } from "../../../../sinks/switchgear_api/console/assets/js/parts/state.js";
import { STATES } from "../../../../sinks/switchgear_api/console/assets/js/states.js";

/** All elements of a drawing, the drawing itself included. */
const elements = (drawn) => [
  drawn,
  ...[drawn.props?.children ?? []]
    .flat(9)
    .filter((each) => typeof each === "object" && each !== null)
    .flatMap(elements),
];

function assertNothingIsKept(draw) {
  const [once, again] = [elements(draw()), elements(draw())];
  assert.equal(once.length, again.length);
  assert.deepEqual(
    once.filter((element) => again.includes(element)),
    [],
  );
}

test("no element is handed out twice, also not of the parts of a template that have no values", () => {
  const draw = () =>
    html`<p class="fixed">
      <b>Fixed <i>too</i></b
      >${1}<em>Fixed</em>
    </p>`;
  assert.equal(elements(draw()).length, 4);
  assertNothingIsKept(draw);
  assertNothingIsKept(() => html`<p>Nothing in it changes</p>`);
});

test("the shape of a state is a new element in each place", () => {
  for (const state of [...Object.keys(STATES), "a state of a later release"])
    assertNothingIsKept(() => StateShape({ state }));
});
