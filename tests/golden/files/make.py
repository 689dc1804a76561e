#!/usr/bin/env python3
"""Makes the files of this directory by the programs that the world makes such files with.

Needs numpy, pillow, pypng, torch, safetensors, diffusers, tensorboard and GNU tar; run it here: python3 make.py
files.tsv: #file reader expect shape values     expect: "ok", or a part of the message with which it must be refused
tar.tsv:   #file type name target mode mtime content
events.tsv: #step tag value
"""
import glob, io, os, shutil, subprocess, tarfile, unittest.mock
import numpy as np
import png
from PIL import Image

os.chdir(os.path.dirname(os.path.abspath(__file__)))
random = np.random.default_rng(3)
rows = []


def expect(name, reader, array):
    array = np.asarray(array)
    with np.errstate(over="ignore"):
        values = array.astype(np.float32).ravel(order="C")
    shape = " ".join(map(str, array.shape))
    rows.append([name, reader, "ok", shape, " ".join("%.9g" % v for v in values)])


def refuse(name, reader, message):
    rows.append([name, reader, message, "", ""])


# ---- npy
def npy(name, array, version=None):
    with open(name, "wb") as file:
        np.lib.format.write_array(file, array, version=version)


def readable_npy(name, array, version=None):
    npy(name, array, version)
    expect(name, "npy", array)


for kind in ["<u1", "<i1", "<u2", "<i2", "<u4", "<i4", "<u8", "<i8", ">u2", ">i2", ">u4", ">i4", ">u8", ">i8"]:
    limits = np.iinfo(kind)
    values = [limits.min, limits.max, limits.max - 1, limits.max // 3, 5, 0]
    name = "%s%s.npy" % ("big-" if kind[0] == ">" else "", kind[1:])
    readable_npy(name, np.array(values, dtype=kind).reshape(2, 3))
for kind in ["<f2", "<f4", "<f8", ">f2", ">f4", ">f8"]:
    tiny = np.finfo(kind).tiny
    values = [1 / 3, -2.5, np.inf, -np.inf, np.nan, float(tiny), float(tiny) / 16, -0.0, 65504, 1e-7]
    name = "%s%s.npy" % ("big-" if kind[0] == ">" else "", kind[1:])
    readable_npy(name, np.array(values, dtype=kind).reshape(2, 5))
readable_npy("bool.npy", np.array([True, False, True]))
readable_npy("fortran.npy", np.asfortranarray(random.random((2, 3, 4))))
readable_npy("fortran-matrix.npy", np.asfortranarray(random.integers(-9, 9, (3, 5)).astype(">i4")))
readable_npy("fortran-8d.npy", np.asfortranarray(random.random((2, 1, 2, 1, 2, 1, 1, 3)).astype("f4")))
readable_npy("scalar.npy", np.array(2.25))
readable_npy("empty.npy", np.zeros((0, 3), "f4"))
readable_npy("version-2.npy", np.arange(6, dtype="f4").reshape(2, 3), (2, 0))
readable_npy("version-3.npy", np.arange(6, dtype="f4").reshape(2, 3), (3, 0))
readable_npy("written-scalar.npy", np.array(2.25, "f4"))
readable_npy("written-line.npy", np.array([1, 2, 3], "f4"))
readable_npy("written-8d.npy", random.random((1, 2, 1, 1, 1, 1, 1, 3)).astype("f4"))
for name, array, message in [
    ("object.npy", np.array([{"a": 1}, None], dtype=object), "pickle"),
    ("record.npy", np.zeros(2, dtype=[("x", "f4"), ("y", "i2")]), "records"),
    ("string.npy", np.array(["abc", "d"]), "'<U3' are not supported"),
    ("bytes.npy", np.array([b"abc"]), "'|S3' are not supported"),
    ("complex.npy", np.zeros(2, "c8"), "'<c8' are not supported"),
    ("long-double.npy", np.zeros(2, "g"), "'<f16' are not supported"),
    ("date.npy", np.zeros(2, "M8[s]"), "are not supported"),
    ("9d.npy", np.zeros((1,) * 9, "f4"), "more than 8 dimensions"),
]:
    npy(name, array)
    refuse(name, "npy", message)
np.savez("archive.npz", a=np.zeros(2))
refuse("archive.npz", "npy", "not an npy file")

# ---- images
height, width = 5, 7
rgb = random.integers(0, 256, (height, width, 3)).astype(np.uint8)
grey = random.integers(0, 256, (height, width)).astype(np.uint8)
depth = random.integers(0, 65536, (height, width)).astype(np.uint16)
depth[0, :2] = 0, 65535


def expanded(array):
    return np.repeat(np.asarray(array)[..., None], 3, 2)


def pypng(name, array, **options):
    array = np.asarray(array)
    rows_of_samples = array.reshape(array.shape[0], -1).tolist()
    with open(name, "wb") as file:
        png.Writer(width=array.shape[1], height=array.shape[0], **options).write(file, rows_of_samples)


Image.fromarray(depth).save("depth.png")
expect("depth.png", "depth", depth[..., None])
refuse("depth.png", "rgb", "16 bits a sample")
Image.fromarray(depth[:1, 1:2]).save("depth-1x1.png")
expect("depth-1x1.png", "depth", depth[:1, 1:2, None])
pypng("depth-adam7.png", depth, greyscale=True, bitdepth=16, interlace=True)
expect("depth-adam7.png", "depth", depth[..., None])
pypng("depth-transparent.png", depth, greyscale=True, bitdepth=16, transparent=5, gamma=0.45)
expect("depth-transparent.png", "depth", depth[..., None])
Image.fromarray(rgb).save("rgb.png")
expect("rgb.png", "rgb", rgb)
refuse("rgb.png", "depth", "16-bit grey depth is expected")
pypng("rgb-adam7.png", rgb, greyscale=False, bitdepth=8, interlace=True)
expect("rgb-adam7.png", "rgb", rgb)
pypng("rgb-1x1-adam7.png", rgb[:1, :1], greyscale=False, bitdepth=8, interlace=True)
expect("rgb-1x1-adam7.png", "rgb", rgb[:1, :1])
Image.fromarray(grey).save("grey.png")
expect("grey.png", "rgb", expanded(grey))
refuse("grey.png", "depth", "16-bit grey depth is expected")
for bits in [1, 2, 4]:
    small = grey >> (8 - bits)
    pypng("grey-%d.png" % bits, small, greyscale=True, bitdepth=bits)
    expect("grey-%d.png" % bits, "rgb", expanded(small.astype(int) * 255 // (2**bits - 1)))
    table = random.integers(0, 256, (2**bits, 3)).tolist()
    pypng("palette-%d.png" % bits, small, bitdepth=bits, palette=[tuple(c) for c in table])
    expect("palette-%d.png" % bits, "rgb", np.array(table)[small])
palette = Image.fromarray(rgb).quantize(16)
palette.save("palette.png")
expect("palette.png", "rgb", np.array(palette.convert("RGB")))
palette.save("palette-transparent.png", transparency=3)
refuse("palette-transparent.png", "rgb", "transparency")
Image.fromarray(rgb).save("rgb-transparent.png", transparency=(1, 2, 3))
refuse("rgb-transparent.png", "rgb", "transparency")
Image.fromarray(np.dstack([rgb, grey])).save("rgba.png")
refuse("rgba.png", "rgb", "transparency")
Image.fromarray(np.dstack([grey, grey]), "LA").save("grey-alpha.png")
refuse("grey-alpha.png", "rgb", "transparency")
pypng("rgb-16.png", rgb.astype(int) * 257, greyscale=False, bitdepth=16)
refuse("rgb-16.png", "rgb", "16 bits a sample")
refuse("rgb-16.png", "depth", "16-bit grey depth is expected")

photo = np.array(Image.fromarray(random.integers(0, 256, (4, 5, 3)).astype(np.uint8)).resize((19, 13), Image.BICUBIC))
plate = Image.fromarray(photo)
turned = Image.Exif()
turned[0x112] = 6
for name, image, options in [
    ("baseline.jpg", plate, {"quality": 90}),
    ("baseline-444.jpg", plate, {"quality": 95, "subsampling": 0}),
    ("baseline-422.jpg", plate, {"quality": 80, "subsampling": 1}),
    ("optimised.jpg", plate, {"optimize": True}),
    ("progressive.jpg", plate, {"progressive": True}),
    ("restart.jpg", plate, {"restart_marker_blocks": 1}),
    ("turned.jpg", plate, {"exif": turned}),
    ("grey.jpg", plate.convert("L"), {}),
    ("grey-progressive.jpg", plate.convert("L"), {"progressive": True}),
    ("1x1.jpg", plate.crop((0, 0, 1, 1)), {}),
]:
    image.save(name, **options)
    decoded = np.array(Image.open(name))
    expect(name, "rgb", decoded if decoded.ndim == 3 else expanded(decoded))
refuse("baseline.jpg", "depth", "16-bit grey depth is expected")
plate.convert("CMYK").save("cmyk.jpg")
refuse("cmyk.jpg", "rgb", "CMYK")
plate.crop((0, 0, 7, 5)).save("other.gif")
refuse("other.gif", "rgb", "not a PNG, JPEG, PGM or PPM")

Image.fromarray(rgb).save("rgb.ppm")
expect("rgb.ppm", "rgb", rgb)
Image.fromarray(grey).save("grey.pgm")
expect("grey.pgm", "rgb", expanded(grey))
Image.fromarray(depth.astype(np.int32)).save("depth.pgm")
expect("depth.pgm", "depth", depth[..., None])

# ---- safetensors
import torch
import safetensors.torch
from diffusers import ModelMixin
from diffusers.configuration_utils import ConfigMixin, register_to_config

types = dict(u64=torch.uint64, i64=torch.int64, f64=torch.float64, f32=torch.float32, u32=torch.uint32, i32=torch.int32,
    bf16=torch.bfloat16, f16=torch.float16, u16=torch.uint16, i16=torch.int16, i8=torch.int8, u8=torch.uint8, bool=torch.bool)
tensors = {"%s.weight" % name: torch.arange(3).to(kind) for name, kind in types.items()}
tensors["a.scalar"] = torch.tensor(1.5)
tensors["b.empty"] = torch.zeros(0, 4)
tensors["c \"quoted\" \\ \t \x01 \u00e9"] = torch.tensor([[1.0, -2.0, 3.0]])
tensors["d.block"] = torch.arange(24, dtype=torch.float32).reshape(1, 2, 3, 4)
safetensors.torch.save_file(tensors, "types.safetensors", metadata={"format": "pt"})
floats = torch.tensor([1 / 3, -2.5, float("inf"), float("nan"), 1e-7, 65504.0])
safetensors.torch.save_file({"half": floats.half(), "bfloat": floats.bfloat16(), "single": floats, "double": floats.double()},
    "floats.safetensors")
for name in ["half", "bfloat", "single", "double"]:
    expect("floats.safetensors", "tensor:" + name, safetensors.torch.load_file("floats.safetensors")[name].float().numpy())
safetensors.torch.save_file({"x": torch.zeros(8).to(torch.float8_e4m3fn)}, "float8.safetensors")
refuse("float8.safetensors", "tensor:x", "F8_E4M3 are not supported")


class Blocks(ModelMixin, ConfigMixin):
    @register_to_config
    def __init__(self, count=4):
        super().__init__()
        self.blocks = torch.nn.ModuleList([torch.nn.Linear(4, 4) for _ in range(count)])
        for parameter in self.parameters():
            parameter.data = torch.from_numpy(random.random(tuple(parameter.shape)).astype(np.float32))
        # the save walks the modules in this order, which is that of the names
        for block in self.blocks:
            block._parameters = dict(sorted(block._parameters.items()))


shutil.rmtree("sharded", ignore_errors=True)
Blocks().save_pretrained("sharded", max_shard_size=200)
os.remove("sharded/config.json")

# ---- tar
time = 1700000000
shutil.rmtree("tree", ignore_errors=True)
os.makedirs("tree/directory")
long_name = "directory/" + "n" * 120
members = {"directory/plain.txt": b"plain\n", long_name: b"long\n", "r\u00e9sum\u00e9": b"\0\1\2"}
for name, content in members.items():
    with open("tree/" + name, "wb") as file:
        file.write(content)
os.chmod("tree/directory/plain.txt", 0o755)
os.symlink("directory/plain.txt", "tree/soft")
os.symlink("directory/" + "t" * 110, "tree/soft-long")
os.link("tree/directory/plain.txt", "tree/hard")
tar_rows = []
order = ["directory", "directory/plain.txt", long_name, "r\u00e9sum\u00e9", "soft", "soft-long", "hard"]


def expect_tar(archive, names, link_mode=0o777):
    for name in names:
        path, kind, target, content = "tree/" + name, "f", "", b""
        if os.path.islink(path):
            kind, target = "l", os.readlink(path)
        elif os.path.isdir(path):
            kind = "d"
        elif name == "hard":
            kind, target = "h", "directory/plain.txt"
        else:
            content = open(path, "rb").read()
        mode = {"l": link_mode, "d": 0o755}.get(kind, os.lstat(path).st_mode & 0o777)
        tar_rows.append([archive, kind, name, target, "%o" % mode, str(time), content.hex()])


def gnu_tar(archive, names, *options):
    command = ["tar", "--mtime=@%d" % time, "--mode=u=rwX,go=rX", "--owner=0", "--group=0", "--blocking-factor=1",
        "--no-recursion", "-C", "tree", "-cf", archive, *options, *names]
    subprocess.run(command, check=True, env=dict(os.environ, LC_ALL="C"))
    # --mode reaches the links as well
    expect_tar(archive, [n[2:] if n.startswith("./") else n for n in names if n != "./"], link_mode=0o755)


short = [name for name in order if len(name) < 100 and name != "soft-long"]
gnu_tar("gnu.tar", order, "--format=gnu")
gnu_tar("pax.tar", order, "--format=pax", "--pax-option=delete=atime,delete=ctime")
gnu_tar("ustar.tar", short, "--format=ustar")
gnu_tar("v7.tar", short, "--format=v7")
gnu_tar("dotted.tar", ["./"] + ["./" + name for name in short], "--format=gnu")
gnu_tar("gzip.tar.gz", short, "-z")
gnu_tar("xz.tar.xz", short, "-J")
gnu_tar("bzip2.tar.bz2", short, "-j")
with tarfile.open("python.tar", "w", format=tarfile.PAX_FORMAT) as archive:
    for name in order:
        information = archive.gettarinfo("tree/" + name, name)
        information.mtime, information.uid, information.gid, information.uname, information.gname = time, 0, 0, "", ""
        if information.islnk():
            information.linkname = "directory/plain.txt"
        with open("tree/" + name, "rb") if information.isreg() else io.BytesIO() as content:
            archive.addfile(information, content if information.isreg() else None)
expect_tar("python.tar", order)


def refuse_tar(name, message, members):
    with tarfile.open(name, "w", format=tarfile.GNU_FORMAT) as archive:
        for member, options in members:
            information = tarfile.TarInfo(member)
            for key, value in options.items():
                setattr(information, key, value)
            archive.addfile(information, io.BytesIO(b"x" * information.size))
    data = open(name, "rb").read().rstrip(b"\0")
    open(name, "wb").write(data.ljust((len(data) + 511) // 512 * 512 + 1024, b"\0"))
    refuse(name, "tar", message)


refuse_tar("absolute.tar", "/etc/x: its name points outside", [("/etc/x", {"size": 3})])
refuse_tar("outside.tar", "a/../../x: its name points outside", [("a/../../x", {"size": 3})])
refuse_tar("device.tar", "null: is a device or pipe", [("null", {"type": tarfile.CHRTYPE})])
refuse_tar("pipe.tar", "pipe: is a device or pipe", [("pipe", {"type": tarfile.FIFOTYPE})])
refuse_tar("hard-outside.tar", "hard link to a place outside", [("x", {"type": tarfile.LNKTYPE, "linkname": "../../x"})])
with open("tree/holes", "wb") as file:
    file.truncate(1 << 20)
    file.seek(1 << 19)
    file.write(b"x")
subprocess.run(["tar", "-C", "tree", "--blocking-factor=1", "--mtime=@%d" % time, "--owner=0", "--group=0", "-Scf",
    "sparse.tar", "holes"], check=True)
refuse("sparse.tar", "tar", "holes: is a sparse member")
shutil.rmtree("tree")

# ---- event files
from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.summary.writer.event_file_writer import EventFileWriter

for old in glob.glob("events.out.tfevents.*"):
    os.remove(old)
shutil.rmtree("events", ignore_errors=True)
with unittest.mock.patch("time.time", return_value=float(time)):
    writer = EventFileWriter("events")
event_rows = []
for step in [0, 1, 7, 2**40]:
    values = [Summary.Value(tag="loss", simple_value=1 / (step + 1)), Summary.Value(tag="lr/\u00e9", simple_value=-0.0)]
    writer.add_event(Event(wall_time=time + step, step=step, summary=Summary(value=values)))
    event_rows += [[str(step), v.tag, "%.9g" % np.float32(v.simple_value)] for v in values]
image = Summary.Image(height=height, width=width, colorspace=3, encoded_image_string=open("rgb.png", "rb").read())
writer.add_event(Event(wall_time=time, step=3, summary=Summary(value=[Summary.Value(tag="picture", image=image)])))
event_rows.append(["3", "picture", "nan"])
writer.close()
os.rename(glob.glob("events/*")[0], "events.out.tfevents.golden")
os.rmdir("events")


# ---- samples for the fuzzer
for parser, patterns in {
    "png": ["*.png"], "jpeg": ["*.jpg"], "pnm": ["*.p[gp]m"], "image": ["rgb.png", "depth.png", "grey.jpg", "rgb.ppm", "other.gif"],
    "npy": ["*.npy"], "safetensors": ["*.safetensors"], "index": ["sharded/*.json"], "tar": ["*.tar*"],
    "tfevents": ["events.out*"],
}.items():
    os.makedirs("../../corpus/" + parser, exist_ok=True)
    for sample in sum((glob.glob(pattern) for pattern in patterns), []):
        if sample != "tar.tsv":
            shutil.copyfile(sample, "../../corpus/%s/%s" % (parser, os.path.basename(sample)))


def write_table(name, header, table):
    with open(name, "w", encoding="utf-8") as file:
        file.write(header + "\n")
        file.writelines("\t".join(row) + "\n" for row in table)


write_table("files.tsv", "#file\treader\texpect\tshape\tvalues", rows)
write_table("tar.tsv", "#file\ttype\tname\ttarget\tmode\tmtime\tcontent", tar_rows)
write_table("events.tsv", "#step\ttag\tvalue", event_rows)
