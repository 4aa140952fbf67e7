"""What a job's libraries can do with the user, the folders and the environment that a job has.

Prints one JSON line for each library: what it did, or the words of its refusal. It may write where
a job may, and reaches no network.
"""

import getpass
import importlib
import json
import os
import tempfile
import time
import traceback
from pathlib import Path


def say(name, **words):
    print(json.dumps({"library": name} | words), flush=True)


def folders():
    tries = {
        "home": Path.home(),
        "work": Path.cwd(),
        "temporary": Path(tempfile.gettempdir()),
        "shared": Path("/dev/shm"),
    }
    return {name: f"{folder}: {writes(folder)}" for name, folder in tries.items()}


def writes(folder):
    try:
        with tempfile.NamedTemporaryFile(dir=folder):
            return "can write"
    except OSError as error:
        return error.strerror


def user():
    return {"uid": os.getuid(), "name": getpass.getuser()}


def torch():
    torch = importlib.import_module("torch")
    a = torch.randn(512, 512, device="cuda")
    uuid = str(torch.cuda.get_device_properties(0).uuid)
    return {"version": torch.__version__, "uuid": uuid, "sum": float((a @ a).sum())}


def compile():
    torch = importlib.import_module("torch")
    function = torch.compile(lambda x: torch.sin(x) * 2 + x)
    return {"sum": float(function(torch.ones(1024, device="cuda")).sum())}


def triton():
    module = importlib.import_module("add_one")
    return {"sum": module.run()}


def tokenizers():
    library = importlib.import_module("tokenizers")
    tokenizer = library.Tokenizer(library.models.BPE())
    tokenizer.train_from_iterator(["to be or not to be"] * 10)
    return {"tokens": tokenizer.encode("to be").tokens}


def transformers():
    library = importlib.import_module("transformers")
    settings = library.GPT2Config(n_layer=2, n_head=2, n_embd=64, vocab_size=256)
    with tempfile.TemporaryDirectory() as folder:
        library.GPT2LMHeadModel(settings).save_pretrained(folder)
        model = library.GPT2LMHeadModel.from_pretrained(folder).to("cuda")
    return {"parameters": sum(p.numel() for p in model.parameters())}


def huggingface_cache():
    constants = importlib.import_module("huggingface_hub.constants")
    Path(constants.HF_HUB_CACHE).mkdir(parents=True, exist_ok=True)
    return {"folder": constants.HF_HUB_CACHE}


def matplotlib():
    library = importlib.import_module("matplotlib")
    return {"configuration": library.get_configdir(), "cache": library.get_cachedir()}


LIBRARIES = (
    user, folders, torch, compile, triton, tokenizers, transformers, huggingface_cache, matplotlib,
)  # fmt: skip


if __name__ == "__main__":
    say("environment", names=sorted(os.environ))
    for library in LIBRARIES:
        began = time.monotonic()
        try:
            words = {"did": library()}
        except ImportError as missing:
            words = {"not_possible": str(missing)}
        except Exception:
            words = {"refusal": traceback.format_exc()}
        say(library.__name__, seconds=round(time.monotonic() - began, 2), **words)
