#!/usr/bin/env python3
"""Checkpoints as PyTorch writes them, and the tensors they must give.

usage: torch_files.py [DIRECTORY]     (default: tests/golden/torch)

Each X.pth has an X.safetensors beside it, written by the safetensors library. plain.tsv holds the values beside the weights.
"""
import collections
import os
import pickle
import struct
import sys
import zlib

import torch
from safetensors.torch import save_file

out = sys.argv[1] if len(sys.argv) > 1 else os.path.join(os.path.dirname(os.path.abspath(__file__)), "torch")
os.makedirs(out, exist_ok=True)
torch.manual_seed(7)


def save(name, value, tensors, **options):
    torch.save(value, f"{out}/{name}.pth", **options)
    save_file({k: v.detach().contiguous().clone() for k, v in tensors.items()}, f"{out}/{name}.safetensors")


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = torch.nn.Conv3d(3, 4, (3, 3, 3), bias=False)
        self.bn1 = torch.nn.BatchNorm3d(4)
        self.fc = torch.nn.Linear(4, 5)

    def forward(self, x):
        return self.fc(torch.relu(self.bn1(self.conv1(x))).mean((2, 3, 4)))


# What 3D-ResNets' trainer saves (its main.py: epoch, arch, state_dict, optimizer, scheduler), after three steps.
net = Net()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9, dampening=0.0, weight_decay=1e-3)
scheduler = torch.optim.lr_scheduler.MultiStepLR(optimizer, [2, 50])
for epoch in range(3):
    loss = torch.nn.functional.cross_entropy(net(torch.randn(2, 3, 4, 5, 5)), torch.tensor([1, 3]))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    scheduler.step()
states = {"epoch": 3, "arch": "resnet-18", "state_dict": net.state_dict(), "optimizer": optimizer.state_dict(),
          "scheduler": scheduler.state_dict()}
save("save_3", states, net.state_dict())
save("save_3_legacy", states, net.state_dict(), _use_new_zipfile_serialization=False)
save("protocol4", states, net.state_dict(), pickle_protocol=4)

# The 2018 branch: names of a parallel wrapper.
wrapped = torch.nn.DataParallel(net).state_dict()
save("module", {"epoch": 4, "arch": "resnet-18", "state_dict": wrapped}, net.state_dict())

# All element types, views of one storage with offsets and strides, parameters, an expanded and an empty tensor.
base = torch.arange(60, dtype=torch.float32).reshape(3, 4, 5) / 7
kinds = collections.OrderedDict()
for kind in ("float32", "float64", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint8", "bool"):
    kinds["kind." + kind] = (torch.arange(6).reshape(2, 3) - 2).abs().to(getattr(torch, kind))
kinds["view.whole"] = base
kinds["view.row"] = base[1, 2]
kinds["view.transposed"] = base.permute(2, 0, 1)
kinds["view.every"] = base[::2, 1:, ::3]
kinds["view.expanded"] = base[0, :1, :1].expand(3, 4)
kinds["view.channels_last"] = torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last)
kinds["empty"] = torch.zeros(0, 3)
kinds["scalar"] = torch.tensor(41, dtype=torch.int64)
kinds["parameter"] = torch.nn.Parameter(torch.randn(3))
save("kinds", kinds, kinds)
save("kinds_legacy", kinds, kinds, _use_new_zipfile_serialization=False)
torch.serialization.set_crc32_options(False)
save("no_crc", net.state_dict(), net.state_dict())
torch.serialization.set_crc32_options(True)


# What must be refused: a call of a function that runs a command, in both forms; elements that are not supported; no dict.
class Hostile:
    def __reduce__(self):
        return (os.system, ("touch hostile-was-here",))


for name, options in (("hostile", {}), ("hostile_legacy", {"_use_new_zipfile_serialization": False})):
    torch.save({"state_dict": {"x": torch.ones(2), "y": Hostile()}}, f"{out}/{name}.pth", **options)


# An expanded tensor of 2^64 - 1 bytes, made of one.
class Huge:
    def __reduce__(self):
        storage = torch.zeros(1, dtype=torch.uint8)._typed_storage()
        return (torch._utils._rebuild_tensor_v2,
                (storage, 0, (3, (2**64 - 1) // 3), (0, 0), False, collections.OrderedDict()))


torch.save({"x": Huge()}, f"{out}/huge.pth")


# An archive whose directory names the same bytes many times.
def write_overlapping(path):
    body = b"x" * 256
    fixed = struct.pack("<HHHHHIII", 20, 0, 0, 0, 0x21, zlib.crc32(body), len(body), len(body))
    local = b"PK\3\4" + fixed + struct.pack("<HH", 1, 0) + b"a" + body
    names = [f"a/data/{i}".encode() for i in range(9)]
    directory = b"".join(b"PK\1\2" + struct.pack("<H", 20) + fixed + struct.pack("<HHHHHII", len(n), 0, 0, 0, 0, 0, 0) + n
                         for n in names)
    with open(path, "wb") as file:
        file.write(local + directory +
                   b"PK\5\6" + struct.pack("<HHHHIIH", 0, 0, len(names), len(names), len(directory), len(local), 0))


write_overlapping(f"{out}/overlapping.pth")
torch.save({"x": torch.zeros(2, dtype=torch.complex64)}, f"{out}/complex.pth")
torch.save([torch.zeros(2)], f"{out}/list.pth")
torch.save({"state_dict": {"x": torch.ones(2), "y": "text"}}, f"{out}/text.pth")
with open(f"{out}/pickle.pth", "wb") as file:
    pickle.dump({"x": 1}, file, protocol=2)
torch.jit.save(torch.jit.script(torch.nn.Linear(2, 2)), f"{out}/script.pth")

with open(f"{out}/plain.tsv", "w") as file:
    def walk(path, value):
        if isinstance(value, dict):
            for key, item in value.items():
                walk(f"{path}.{key}" if path else str(key), item)
        elif isinstance(value, (list, tuple)) and not all(isinstance(i, (int, float, str)) for i in value):
            for i, item in enumerate(value):
                walk(f"{path}.{i}", item)
        elif not torch.is_tensor(value):
            # Whole numbers without a fraction: %.17g and Python's repr differ in that alone.
            texts = [str(i).removesuffix(".0") for i in (value if isinstance(value, (list, tuple)) else [value])]
            file.write(f"{path}\t{','.join(texts)}\n")
    walk("", {k: v for k, v in states.items() if k != "state_dict"})
