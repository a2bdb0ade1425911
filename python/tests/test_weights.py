"""Weights that go into modules and come out of folders, without a run."""

import peft
import pytest
import torch
from safetensors.torch import save_file

import models
import zerofleet
from zerofleet import checkpoint, launch
from zerofleet.errors import Error
from zerofleet.layout import build_on_meta


def build_with_a_trained_head():
    return peft.get_peft_model(models.build_llama(), peft.LoraConfig(r=4, target_modules=["q_proj"],
                                                                    modules_to_save=["lm_head"]))


def test_a_module_that_peft_trains_as_a_whole_begins_with_the_folders_weights(tmp_path):
    inner = dict(models.build_llama().named_parameters())
    save_file({name: p.detach() for name, p in inner.items()}, tmp_path / "model.safetensors")
    names = [name for name, _ in build_on_meta(build_with_a_trained_head).named_parameters()]
    values = launch._weights_under_adapters(str(tmp_path), names, build_with_a_trained_head)
    assert values.keys() == set(names)
    for part in ("modules_to_save.default", "original_module"):
        assert torch.equal(values[f"base_model.model.lm_head.{part}.weight"], inner["lm_head.weight"])
    layer = "model.layers.1.self_attn.q_proj"
    assert torch.equal(values[f"base_model.model.{layer}.base_layer.weight"], inner[f"{layer}.weight"])
    save_file({name: value.contiguous() for name, value in values.items()}, tmp_path / "again.safetensors")


def build_from_seven():
    model = models.build_normed()
    model[1].running_mean.fill_(7)
    return model


def test_buffers_of_a_folder_must_be_those_of_build(tmp_path):
    state = build_from_seven().state_dict()
    save_file({**state, "1.num_batches_tracked": torch.tensor(5)}, tmp_path / "model.safetensors")
    launch._check_buffers(str(tmp_path), zerofleet.Task(build_from_seven, models.Images(4), models.class_loss), 7)
    with pytest.raises(Error, match=r"model.safetensors has other values of the buffer 1.running_mean than build makes"):
        launch._check_buffers(str(tmp_path), models.normed, 7)


def test_a_folder_is_read_as_an_import_reads_it(tmp_path):
    def message():
        with pytest.raises(Error) as error:
            launch._read_folder(str(tmp_path))
        return str(error.value).removeprefix(f"weights: {tmp_path}").lstrip("/ ")

    assert message() == "has neither model.safetensors nor model.safetensors.index.json"
    index = tmp_path / "model.safetensors.index.json"
    for text in ("", "[]", "{}", '{"weight_map": 3}', '{"weight_map": {"a": 3}}', '{"weight_map": {"a": "x", "b": 1}}', "\xff"):
        index.write_text(text)
        assert message() == "model.safetensors.index.json: has no weight_map from names of tensors to names of files", text
    index.write_text('{"weight_map": {"a": "part.safetensors", "b": "../part.safetensors"}}')
    assert message().startswith("part.safetensors: ")
    save_file({"a": torch.ones(2), "b": torch.zeros(1)}, tmp_path / "part.safetensors")
    assert launch._read_folder(str(tmp_path)).keys() == {"a", "b"}
    assert launch._read_folder(str(tmp_path), {"b", "c"}).keys() == {"b"}
    (tmp_path / "model.safetensors").write_bytes(b"\0" * 7)
    assert message().startswith("model.safetensors: ") and "\n" not in message()


def test_a_checkpoint_of_another_module_is_not_loaded(monkeypatch):
    class Stored:
        def __init__(self, path):
            pass

        def state_dict(self):
            return {"weight": torch.ones(2, 3), "bias": torch.ones(2)}

    monkeypatch.setattr(checkpoint, "Checkpoint", Stored)
    assert torch.equal(checkpoint.load("there", torch.nn.Linear(3, 2)).bias, torch.ones(2))
    for module, message in ((torch.nn.Linear(3, 2, bias=False), "there: has weights of bias, which the module has not"),
                            (torch.nn.Linear(2, 2), r"there: weight has the shape \[2, 3\], the module's has \[2, 2\]"),
                            (torch.nn.Bilinear(2, 2, 2), r"there: weight has the shape")):
        before = module.weight.detach().clone()
        with pytest.raises(Error, match=message):
            checkpoint.load("there", module)
        assert torch.equal(module.weight, before)
