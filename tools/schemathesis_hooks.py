"""What nobody can guess from a document: every other wish for an allocation becomes one that can be granted, and every
other question about an allocation is about one that is there. Nobody ends their own token or takes their own role, or all
that comes after would be refused. Writes down what was granted."""

import itertools
import os

import schemathesis

PROJECT, SKU, GRANTED = (os.environ[name] for name in ("HOOKS_PROJECT", "HOOKS_SKU", "HOOKS_GRANTED"))
OWN = set(os.environ["HOOKS_OWN"].split())
made = [os.environ["HOOKS_ALLOCATION"]]
turn = itertools.count()


@schemathesis.hook
def before_call(context, case, kwargs):
    if case.method in ("POST", "DELETE") and isinstance(case.path_parameters, dict):
        for name, value in case.path_parameters.items():
            if value in OWN:
                case.path_parameters[name] = value[: value.index("_") + 1] + "0" * 26
    create = case.operation.label == "POST /v1/allocations"
    one = case.operation.path.startswith("/v1/allocations/{id}")
    if not (create or one) or next(turn) % 2:
        return
    if create and isinstance(case.body, dict):
        case.body = {"project": PROJECT, "sku": SKU}
    elif one and isinstance(case.path_parameters, dict):
        case.path_parameters["id"] = made[-1]


@schemathesis.hook
def after_call(context, case, response):
    if case.operation.label == "POST /v1/allocations" and response.status_code == 202:
        made.append(response.json()["id"])
        with open(GRANTED, "a", encoding="ascii") as granted:
            granted.write(made[-1] + "\n")
