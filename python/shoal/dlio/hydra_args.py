"""The command line of `dlio_benchmark`, as Hydra takes it: options, overrides, and the workload file that they change.

What Hydra can do and this cannot is refused with the argument's name: sweeps, config groups other than `workload`, other plug-ins."""

import os
import re

from .._errors import BadValueError
from .hydra_values import Malformed, resolved, value_of

_OVERRIDE = re.compile(r"(\+\+|\+|~)?([A-Za-z_$][\w$-]*(?:\.[\w$-]+)*)(=(.*))?$", re.S | re.A)
_GROUP = re.compile(r"(\+\+|\+|~)?([\w$-]+(?:[/@][\w$.:-]*)+)(=.*)?$", re.S | re.A)
_OPTIONS = {"--config-dir": "config_dir", "-cd": "config_dir", "--config-name": "config_name", "-cn": "config_name"}
_IGNORED = {"--run", "-r"}  # what Hydra does anyway
_HYDRA = ("hydra.run.dir", "hydra.output_subdir")
_HYDRA_IGNORED = ("hydra.job.chdir", "hydra.job.name", "hydra.verbose", "hydra.job_logging", "hydra.hydra_logging")
_GROUPS_IGNORED = ("hydra/job_logging", "hydra/hydra_logging")  # DLIO's own choice for them is "disabled"


def refuse(what, words):
    raise BadValueError(22, "%s: %s" % (what, words))


def _yaml():
    try:
        import yaml
    except ImportError:
        raise BadValueError(22, "the dlio_benchmark of Shoal needs PyYAML in %s: pip install pyyaml" % os.environ.get("VIRTUAL_ENV", "its Python")) from None
    return yaml


class Arguments:
    """What was asked for: options, and overrides as (prefix, key, value's text)."""

    def __init__(self, argv):
        self.config_dir, self.config_name, self.workload, self.show = None, "config", None, False
        self.overrides, self.hydra, self.texts = [], {}, []
        todo = list(argv)
        while todo:
            self._take(todo.pop(0), todo)

    def _take(self, argument, rest):
        option, equals, value = argument.partition("=")
        if option in _OPTIONS:
            if not equals and not rest:
                refuse(option, "a value must follow")
            setattr(self, _OPTIONS[option], value if equals else rest.pop(0))
        elif option in ("--cfg", "-c"):
            if (value if equals else rest.pop(0) if rest else "") != "job":
                refuse(option, "Shoal's dlio_benchmark shows the configuration of the job: --cfg job")
            self.show = True
        elif argument.startswith("-"):
            if argument not in _IGNORED:
                refuse(option, "Shoal's dlio_benchmark has no such option; it takes --config-dir, --config-name and overrides")
        else:
            self._override(argument)

    def _override(self, argument):
        group, match = _GROUP.match(argument), _OVERRIDE.match(argument)
        if group and group[2] in _GROUPS_IGNORED:
            self.texts.append(argument)
            return
        if group and not match:
            refuse(group[2], "Shoal's dlio_benchmark has one config group, workload=NAME")
        if not match or not match[3] and match[1] != "~":
            refuse(argument, "this is not an override of Hydra's: KEY=VALUE, +KEY=VALUE, ++KEY=VALUE or ~KEY")
        self.texts.append(argument)
        self._take_key(match[1] or "", match[2], match[4])

    def _take_key(self, prefix, key, text):
        try:
            value = text if text is None else value_of(text)
        except Malformed as e:
            refuse("%s=%s" % (key, text), str(e))
        if key == "workload":
            if prefix or not isinstance(value, str):
                refuse(key, "say workload=NAME: one workload is chosen, and DLIO's configuration has the group already")
            self.workload = value
        elif key.startswith("workload."):
            self.overrides.append((prefix, key[len("workload."):], value))
        elif key in _HYDRA:
            self.hydra[key] = value
        elif not key.startswith(_HYDRA_IGNORED):
            refuse(key, "Shoal's dlio_benchmark takes workload=, workload.*, %s" % " and ".join(_HYDRA))


# ---- The workload


def _merge(into, other):
    for key, value in other.items():
        if isinstance(value, dict) and isinstance(into.get(key), dict):
            _merge(into[key], value)
        else:
            into[key] = value


def _loader():
    """YAML as Hydra reads it: 1e3 is a number, a date is a string, and a key that is given twice is an error."""
    yaml = _yaml()

    class Loader(yaml.SafeLoader):
        def construct_mapping(self, node, deep=False):
            keys = [key.value for key, _ in node.value if isinstance(key, yaml.ScalarNode) and key.tag != "tag:yaml.org,2002:merge"]
            for key in keys:
                if keys.count(key) > 1:
                    raise yaml.constructor.ConstructorError(None, None, "key '%s' is given twice" % key, node.start_mark)
            return super().construct_mapping(node, deep)

    Loader.yaml_implicit_resolvers = {first: [one for one in found if one[0] not in ("tag:yaml.org,2002:timestamp", "tag:yaml.org,2002:float")]
                                      for first, found in yaml.SafeLoader.yaml_implicit_resolvers.items()}
    Loader.add_implicit_resolver("tag:yaml.org,2002:float", re.compile(
        r"[-+]?(\d[\d_]*\.[\d_]*([eE][-+]?\d+)?|\d[\d_]*[eE][-+]?\d+|\.[\d_]+([eE][-+]?\d+)?|\.(inf|Inf|INF)|\.(nan|NaN|NAN))$"), list("-+0123456789."))
    return Loader


def _load(path):
    try:
        with open(path, encoding="utf-8") as file:
            content = _yaml().load(file, _loader())
    except OSError as e:
        refuse(path, e.strerror)
    except UnicodeDecodeError:
        refuse(path, "it is not text in UTF-8")
    except RecursionError:
        refuse(path, "it is nested too deeply")
    except _yaml().YAMLError as e:
        refuse(path, "it is not YAML: %s" % " ".join(str(e).split()))
    if not isinstance(content or {}, dict):
        refuse(path, "it is not a mapping")
    return content or {}


def _top_file(arguments):
    """DIR/NAME.yaml, where --config-name was given: it may choose the workload, change it, and say where results go."""
    if arguments.config_name in ("config", "config.yaml"):
        return {}
    if not arguments.config_dir:
        refuse("--config-name", "needs --config-dir")
    top = _load(os.path.join(arguments.config_dir, arguments.config_name.replace(".yaml", "") + ".yaml"))
    for entry in top.pop("defaults", []):
        if isinstance(entry, dict) and list(entry) in (["workload"], ["override workload"]):
            arguments.workload = arguments.workload or str(next(iter(entry.values())))
        elif entry != "_self_":
            refuse(arguments.config_name, "its defaults name %r, and only workload is a group here" % (entry,))
    for key in top:
        if key not in ("workload", "hydra"):
            refuse("%s in %s.yaml" % (key, arguments.config_name), "only workload and hydra are known")
    return top


def _set(workload, prefix, key, value):
    *parents, last = key.split(".")
    for parent in parents:
        if prefix in ("", "~") and not isinstance(workload.get(parent), dict):
            refuse("workload." + key, "the workload has no section '%s'; ++workload.%s=... adds it" % (parent, key))
        workload = workload.setdefault(parent, {}) if isinstance(workload.get(parent, {}), dict) else _replaced(workload, parent)
    there = last in workload
    if prefix in ("", "~") and not there:
        refuse("%sworkload.%s" % (prefix, key), "the workload has no such key%s" % ("" if prefix else "; ++workload.%s=... adds it" % key))
    if prefix == "~":
        if value is not None and workload[last] != value:
            refuse("~workload." + key, "its value is %r and not %r" % (workload[last], value))
        del workload[last]
    elif prefix == "+" and there and not isinstance(value, dict):
        refuse("+workload." + key, "the workload has this key; ++workload.%s=... changes it" % key)
    elif not prefix and isinstance(value, dict) and isinstance(workload[last], dict):
        for name, one in value.items():
            _set(workload[last], "", str(name), one)
    else:
        _merge(workload, {last: value})


def _replaced(section, key):
    section[key] = {}
    return section[key]


def workload_of(arguments, shipped):
    """The workload as it was asked for. shipped(name) gives one that no --config-dir has."""
    top = _top_file(arguments)
    if not arguments.workload:
        refuse("workload", "say which: workload=NAME")
    path = os.path.join(arguments.config_dir or "", "workload", arguments.workload.replace(".yaml", "") + ".yaml")
    if arguments.config_dir and not os.path.isdir(arguments.config_dir):
        refuse("--config-dir", "there is no directory '%s'" % arguments.config_dir)
    workload = _load(path) if arguments.config_dir and os.path.exists(path) else shipped(arguments.workload)
    workload.pop("defaults", None)
    _merge(workload, top.get("workload") or {})
    for key, value in (("hydra.run.dir", ((top.get("hydra") or {}).get("run") or {}).get("dir")),
                       ("hydra.output_subdir", (top.get("hydra") or {}).get("output_subdir"))):
        if value is not None:
            arguments.hydra.setdefault(key, value)
    for override in arguments.overrides:
        _set(workload, *override)
    return workload


def without_references(workload, **more):
    """The workload, and more values beside it, with what ${...} refers to in their places."""
    try:
        found = resolved({"workload": workload, **more})
    except Malformed as e:
        refuse("reference", str(e))
    return found.pop("workload"), found
