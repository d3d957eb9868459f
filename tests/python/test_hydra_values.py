"""Overrides as Hydra reads them: the tables were written by hydra-core 1.3.2. Where that is installed it is asked once more, and about
random texts as well."""
import json
import os
import random
import subprocess
import sys

import pytest

from shoal._errors import Error
from shoal.dlio.hydra_args import Arguments, without_references, workload_of
from shoal.dlio.hydra_values import Malformed, value_of

REFUSED = "refused"

# Text of a value, and what it means.
VALUES = [
    ("1e-3", 0.001), ("1e5", 100000.0), (".5", 0.5), ("5.", 5.0), ("1_000", 1000), ("+5", 5), ("-5", -5), ("012", "012"), ("01.5", "01.5"),
    ("0x10", "0x10"), ("1:30", "1:30"), ("2026-01-01", "2026-01-01"), ("inf", float("inf")), ("1__0", "1__0"),
    ("off", "off"), ("yes", "yes"), ("On", "On"), ("True", True), ("fAlSe", False), ("null", None), ("NULL", None), ("", ""),
    ("'a b'", "a b"), ('"1"', "1"), (r"'it\'s'", "it's"), (r"'a\b'", r"a\b"), (r"'a\\'", "a\\"), ("'a,b'", "a,b"), ("''", ""),
    ("a b  ", "a b"), (" 5 ", 5), (r"a\,b", "a,b"), (r"a\ ", "a "), (r"a\=b", "a=b"), (r"\{a\}", "{a}"), (r"a\xb", r"a\xb"), (r"\\host", r"\host"),
    ("s3://b/a_b-c.d%20x", "s3://b/a_b-c.d%20x"), ("*a@b?|$c", "*a@b?|$c"),
    ("[1,2,a b]", [1, 2, "a b"]), ("[]", []), ("[[1],{a:b}]", [[1], {"a": "b"}]), ("[a, 'b,c' , d]", ["a", "b,c", "d"]), ("{a:1,b:off}", {"a": 1, "b": "off"}),
    ("{a:b:c}", {"a": "b:c"}), ("{}", {}), ("int(3.7)", 3), ("str(3)", "3"), ("float([1,2])", [1.0, 2.0]), ("bool(1)", True), ("int('3')", 3),
    ("str(1e3)", "1000.0"), ("${a.b}", "${a.b}"), ("x${a}y", "x${a}y"),
    ("1,2", REFUSED), ("choice(1,2)", REFUSED), ("range(1,3)", REFUSED), ("glob(*)", REFUSED), ("sort(3,2)", REFUSED), ("a(b)", REFUSED),
    ("int(x)", REFUSED), ("bool(yes)", REFUSED), ("str(null)", REFUSED), ("a=b", REFUSED), ("a#b", REFUSED), ("~", REFUSED), ("<a>", REFUSED),
    ("a;b", REFUSED), ("!a", REFUSED), ("&a", REFUSED), ("[a", REFUSED), ("{a", REFUSED), ("{a}", REFUSED), ("[a,]", REFUSED), ("'a", REFUSED),
    ("a'b'", REFUSED), ("'a'b", REFUSED), ("x[]", REFUSED), ("()", REFUSED), ("${a", REFUSED), ("{'a':1}", REFUSED), ("a\nb", REFUSED), ("\xe9", REFUSED),
]

WORKLOAD = """
model: {name: unet3d}
framework: pytorch
dataset:
  data_folder: data/${workload.model.name}
  format: npz
  record_length_bytes: 1e3
  day: 2026-01-01
reader: {file_shuffle: seed, sample_shuffle: off}
"""
DATASET = {"data_folder": "data/unet3d", "format": "npz", "record_length_bytes": 1000.0, "day": "2026-01-01"}

# Overrides, and what they make of the section `dataset`.
OVERRIDES = [
    ([], DATASET),
    (["workload.dataset.format=jpeg"], {**DATASET, "format": "jpeg"}),
    (["workload.dataset.more=1"], REFUSED),
    (["workload.more.more=1"], REFUSED),
    (["+workload.dataset.more=1"], {**DATASET, "more": 1}),
    (["+workload.dataset.more=1", "+workload.dataset.more=2"], REFUSED),
    (["+workload.dataset.format=jpeg"], REFUSED),
    (["++workload.dataset.a.b-c.0=1"], {**DATASET, "a": {"b-c": {"0": 1}}}),
    (["++workload.dataset.format.name=1"], {**DATASET, "format": {"name": 1}}),
    (["workload.dataset={format: jpeg}"], {**DATASET, "format": "jpeg"}),
    (["workload.dataset={more: 1}"], REFUSED),
    (["++workload.dataset={more: 1}"], {**DATASET, "more": 1}),
    (["++workload.dataset=5"], 5),
    (["~workload.dataset.format"], {key: value for key, value in DATASET.items() if key != "format"}),
    (["~workload.dataset.format=npz"], {key: value for key, value in DATASET.items() if key != "format"}),
    (["~workload.dataset.format=jpeg"], REFUSED),
    (["~workload.dataset.more"], REFUSED),
    (["++workload.dataset.more=a-${workload.model.name}"], {**DATASET, "more": "a-unet3d"}),
    (["++workload.dataset.more=${workload.dataset.record_length_bytes}"], {**DATASET, "more": 1000.0}),
    (["++workload.dataset.more=\\\\${a}"], {**DATASET, "more": "${a}"}),
    (["++workload.dataset.more=${.format}"], {**DATASET, "more": "npz"}),
    (["++workload.dataset.more=${..framework}"], {**DATASET, "more": "pytorch"}),
    (["++workload.dataset.more=${oc.env:SHOAL_TEST_WORD}"], {**DATASET, "more": "word"}),
    (["++workload.dataset.more=${workload.nothing}"], REFUSED),
    (["++workload.dataset.more=${workload.dataset.more}"], REFUSED),
    (["++workload.dataset.more=${no_such:a}"], REFUSED),
    (["workload.dataset.format"], REFUSED), (["+workload=w"], REFUSED), (["++workload=w"], REFUSED), (["~workload"], REFUSED),
    (["workload..format=1"], REFUSED), (["workload.=1"], REFUSED), (["more@workload=w"], REFUSED),
]


def value_or_refused(text):
    try:
        return value_of(text)
    except Malformed as e:
        assert str(e) and "\n" not in str(e)
        return REFUSED


@pytest.mark.parametrize("text, value", VALUES, ids=[text or "empty" for text, _ in VALUES])
def test_a_value_means_what_it_means_to_hydra(text, value):
    found = value_or_refused(text)
    assert found == value and type(found) is type(value)


@pytest.fixture
def conf(tmp_path, monkeypatch):
    monkeypatch.setenv("SHOAL_TEST_WORD", "word")
    (tmp_path / "workload").mkdir()
    (tmp_path / "workload" / "w.yaml").write_text(WORKLOAD)
    return str(tmp_path)


def dataset(conf, overrides):
    try:
        return without_references(workload_of(Arguments(["--config-dir=" + conf, "workload=w", *overrides]), None))[0]["dataset"]
    except Error as e:
        assert str(e)
        return REFUSED


@pytest.mark.parametrize("overrides, expected", OVERRIDES, ids=[" ".join(overrides) for overrides, _ in OVERRIDES])
def test_overrides_change_a_workload_as_hydra_does(conf, overrides, expected):
    assert dataset(conf, overrides) == expected


def test_a_key_that_a_file_has_twice_is_refused(conf):
    with open(os.path.join(conf, "workload", "w.yaml"), "a", encoding="utf-8") as file:
        file.write("framework: tensorflow\n")
    with pytest.raises(Error, match="'framework' is given twice"):
        workload_of(Arguments(["--config-dir=" + conf, "workload=w"]), None)


# ---- The real one


HYDRA = r'''
import json, os, sys
from hydra import compose, initialize_config_dir
from hydra.core.override_parser.overrides_parser import OverridesParser
from omegaconf import OmegaConf

conf, texts, overrides = json.load(sys.stdin)
parser = OverridesParser.create()

def value(text):
    try:
        found = parser.parse_override("k=" + text)
        return "refused" if found.is_sweep_override() else repr(found.value())
    except Exception:
        return "refused"

def dataset(one):
    try:
        with initialize_config_dir(conf, version_base=None):
            return OmegaConf.to_container(compose("config", ["workload=w", *one]), resolve=True)["workload"]["dataset"]
    except Exception:
        return "refused"

print(json.dumps([[value(text) for text in texts], [dataset(one) for one in overrides]]))
'''


def python_with_hydra():
    folders = [os.environ.get("SHOAL_DLIO_PYPI", ""), sys.prefix]
    for python in [os.path.join(folder, "bin", "python") for folder in folders if folder]:
        if os.path.exists(python) and not subprocess.run([python, "-c", "import hydra"], stderr=subprocess.DEVNULL, check=False).returncode:
            return python
    pytest.skip("no hydra-core: make test-dlio installs it; the tables above are what it was seen to do")


def random_texts(nr):
    # Not in them: broken references, and a blank after a bracket or a colon at the end, which Hydra keeps or refuses by accident.
    pieces = list("abz019_-+./\\$%*@?|:,'\"[]{}()=") + [" a", "1e3", "null", "true", "off", "int(", "str(", "float(", "bool(", "\\,", "\\'", "1_0",
                                                          "inf", "{a:", "${a}", "'a'"]
    texts = ("".join(random.Random(seed).choices(pieces, k=1 + seed % 7)) for seed in range(nr))
    return [text for text in texts if "${" not in text.replace("${a}", "")]


def test_the_real_hydra_agrees(conf):
    python = python_with_hydra()
    with open(os.path.join(conf, "config.yaml"), "w", encoding="utf-8") as file:
        file.write("defaults:\n - _self_\n - workload: w\n")
    texts = [text for text, _ in VALUES] + random_texts(5000)
    overrides = [one for one, _ in OVERRIDES]
    done = subprocess.run([python, "-c", HYDRA], input=json.dumps([conf, texts, overrides]), stdout=subprocess.PIPE, text=True, check=True)
    values, datasets = json.loads(done.stdout.splitlines()[-1])
    own = [value_or_refused(text) for text in texts]
    differ = [(text, hydra, found) for text, hydra, found in zip(texts, values, own)
              if hydra != (found if isinstance(found, str) and found == REFUSED else repr(found))]
    assert differ == []
    assert [(one, found) for one, found in zip(overrides, datasets) if found != dataset(conf, one)] == []
