#!/usr/bin/env python3
"""Writes configs/models/resnet-18.yaml and resnet-50.yaml (Python 3, standard library only).

    tools/dev/make_resnet_configs.py [output folder]

A residual network is a list of layers in execution order, with the names, shapes and registration order of
torchvision. Per sample (one 3 x 224 x 224 image):

* FLOPs: 2 per multiply-add of convolutions and of the last linear layer. Backward is twice the forward (input
  gradient and weight gradient), except for the first convolution, which needs no input gradient.
* Bytes: activations in fp32 (4 bytes), as eager PyTorch moves them. A convolution reads its input and writes
  its output. Batch norm reads its input twice (statistics, then normalisation) and writes once; backward reads
  input and output gradient twice and writes once. ReLU, the residual addition, the pools and the flattening
  are folded into the layer before (or, for the last pool, after) them.
* Saved: the tensors autograd keeps. A tensor kept by several layers is counted once, where it is made last.
"""

import pathlib
import sys

BYTES = 4  # fp32


class Tensor:
    """Shape of an activation: channels and side of a square image."""

    def __init__(self, channels, side):
        self.channels = channels
        self.side = side

    @property
    def bytes(self):
        return BYTES * self.channels * self.side * self.side


class Network:
    def __init__(self):
        self.layers = []

    def conv(self, name, source, channels, kernel, stride, saves_input=True, first=False):
        out = Tensor(channels, -(-source.side // stride))
        weights = channels * source.channels * kernel * kernel
        flops = 2 * weights * out.side * out.side
        moved = source.bytes + out.bytes
        self.layers.append({
            "name": name,
            "parameters": [(name + ".weight", weights)],
            "forward_flops": flops,
            "backward_flops": flops if first else 2 * flops,
            "forward_bytes": moved,
            "backward_bytes": moved if first else 2 * moved,
            "saved_bytes": source.bytes if saves_input else 0,
            "buffers": 0,
        })
        return out

    def bn(self, name, tensor, relu=False, add=False, forward=0, backward=0, saved=0):
        """forward, backward, saved: extra bytes of what is folded into this layer."""
        size = tensor.bytes
        reads = 3 + (3 if add else 0) + (2 if relu else 0)
        back = 5 + (3 if add else 0) + (3 if relu else 0)
        self.layers.append({
            "name": name,
            "parameters": [(name + ".weight", tensor.channels), (name + ".bias", tensor.channels)],
            "forward_flops": 0,
            "backward_flops": 0,
            "forward_bytes": reads * size + forward,
            "backward_bytes": back * size + backward,
            "saved_bytes": size + saved,
            # running_mean and running_var in fp32, num_batches_tracked in int64
            "buffers": 2 * BYTES * tensor.channels + 8,
        })

    def fc(self, source, classes):
        flat = BYTES * source.channels
        out = BYTES * classes
        flops = 2 * source.channels * classes
        self.layers.append({
            "name": "fc",
            "parameters": [("fc.weight", source.channels * classes), ("fc.bias", classes)],
            "forward_flops": flops,
            "backward_flops": 2 * flops,
            # average pool: reads the image, writes the vector; backward the other way round
            "forward_bytes": source.bytes + 2 * flat + out,
            "backward_bytes": source.bytes + 3 * flat + 2 * out,
            "saved_bytes": flat,
            "buffers": 0,
        })


def block(net, name, source, width, stride, expansion, saved):
    """One BasicBlock (expansion 1) or Bottleneck (4); `saved`: an output nothing else keeps."""
    channels = width * expansion
    if expansion == 1:
        plan = [(width, 3, stride), (channels, 3, 1)]
    else:
        plan = [(width, 1, 1), (width, 3, stride), (channels, 1, 1)]
    downsample = stride != 1 or source.channels != channels
    x = source
    for i, (out, kernel, step) in enumerate(plan, start=1):
        x = net.conv(f"{name}.conv{i}", x, out, kernel, step)
        last = i == len(plan)
        end = last and not downsample
        net.bn(f"{name}.bn{i}", x, relu=not last or end, add=end, saved=saved(x) if end else 0)
    if downsample:  # runs after the main branch; its input is already kept by conv1
        x = net.conv(f"{name}.downsample.0", source, channels, 1, stride, saves_input=False)
        net.bn(f"{name}.downsample.1", x, relu=True, add=True, saved=saved(x))
    return x


def resnet(blocks, expansion):
    net = Network()
    x = net.conv("conv1", Tensor(3, 224), 64, 7, 2, first=True)
    pooled = Tensor(64, 56)
    indices = 8 * 64 * 56 * 56  # int64, one per output of the max pool
    net.bn("bn1", x, relu=True,
           forward=x.bytes + pooled.bytes + indices,
           backward=pooled.bytes + indices + x.bytes,
           saved=x.bytes + indices)
    x = pooled
    for stage, count in enumerate(blocks, start=1):
        for i in range(count):
            end = stage == len(blocks) and i == count - 1
            stride = 2 if stage > 1 and i == 0 else 1
            # Every block's output is kept by the next convolution; the last one by its own ReLU.
            kept = (lambda t: t.bytes) if end else (lambda t: 0)
            x = block(net, f"layer{stage}.{i}", x, 64 * 2 ** (stage - 1), stride, expansion, kept)
    net.fc(x, 1000)
    return net


def text(name, title, net, published):
    layers = net.layers
    total = sum(n for layer in layers for _, n in layer["parameters"])
    gflop = sum(layer["forward_flops"] for layer in layers) / 1e9
    lines = [
        "# Written by tools/dev/make_resnet_configs.py, which explains how each number is counted.",
        f"name: {name}",
        f"description: {title} for 224 x 224 images, {gflop:.2f} GFLOP forward per image; activations in fp32,",
        "  ReLU, residual addition and pools folded into the neighbouring batch norm or linear layer",
        f"reference_parameters: {published}",
        "tokens_per_sample: 0",
        "layers:",
    ]
    assert total == published, (total, published)
    for layer in layers:
        parameters = ", ".join(f"{{name: {n}, elements: {e}}}" for n, e in layer["parameters"])
        lines.append(f"  - name: {layer['name']}")
        lines.append(f"    parameters: [{parameters}]")
        lines.append(f"    forward_flops: {layer['forward_flops']} FLOP")
        if layer["backward_flops"] != 2 * layer["forward_flops"]:
            lines.append(f"    backward_flops: {layer['backward_flops']} FLOP")
        lines.append(f"    forward_bytes: {layer['forward_bytes']} B")
        if layer["backward_bytes"] != 2 * layer["forward_bytes"]:
            lines.append(f"    backward_bytes: {layer['backward_bytes']} B")
        lines.append(f"    saved_bytes: {layer['saved_bytes']} B")
        if layer["buffers"]:
            lines.append(f"    buffers: {layer['buffers']} B")
    lines += [
        "sources:",
        f'  layers: "structure of torchvision.models.{name.replace("-", "")} (He et al., arXiv 1512.03385, with',
        '    the stride in the 3 x 3 convolution); FLOPs and bytes counted from the tensor shapes"',
        f'  reference_parameters: "number of elements of the parameters of torchvision.models.'
        f'{name.replace("-", "")}"',
    ]
    return "\n".join(lines) + "\n"


def main():
    root = pathlib.Path(__file__).resolve().parents[2]
    folder = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else root / "configs" / "models"
    for name, title, blocks, expansion, published in (
            ("resnet-18", "ResNet-18", (2, 2, 2, 2), 1, 11689512),
            ("resnet-50", "ResNet-50", (3, 4, 6, 3), 4, 25557032)):
        (folder / f"{name}.yaml").write_text(text(name, title, resnet(blocks, expansion), published))


if __name__ == "__main__":
    main()
