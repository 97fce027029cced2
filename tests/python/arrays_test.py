"""What may be given as an array, and what is said of what may not."""

import array
import ctypes
import mmap

import numpy
import pytutti
from support import Case, threads


class Tensor:
    """Another library's tensor: it has DLPack, and no buffer protocol."""

    def __init__(self, data):
        self.data = data

    def __dlpack_device__(self):
        return self.data.__dlpack_device__()

    def __dlpack__(self, **options):
        return self.data.__dlpack__(**options)

    @property
    def shape(self):
        return self.data.shape

    def new_empty(self, shape):
        return Tensor(numpy.empty(shape, self.data.dtype))


class OldTensor(Tensor):
    """One that does not know versions of DLPack."""

    def __dlpack__(self):
        return self.data.__dlpack__()


class OnDevice(Tensor):
    def __dlpack_device__(self):
        return (2, 0)


class Unreadable(Tensor):
    """One that says why, by an error of its library's choice."""

    def __init__(self, error, on_device=False):
        super().__init__(numpy.zeros(2))
        self.error, self.on_device = error, on_device

    def __dlpack_device__(self):
        if self.on_device:
            raise self.error
        return super().__dlpack_device__()

    def __dlpack__(self, **options):
        raise self.error


class Buffer(ctypes.Structure):
    """Py_buffer of C."""

    _fields_ = [
        ("buf", ctypes.c_void_p),
        ("obj", ctypes.c_void_p),
        ("len", ctypes.c_ssize_t),
        ("itemsize", ctypes.c_ssize_t),
        ("readonly", ctypes.c_int),
        ("ndim", ctypes.c_int),
        ("format", ctypes.c_char_p),
        ("shape", ctypes.POINTER(ctypes.c_ssize_t)),
        ("strides", ctypes.POINTER(ctypes.c_ssize_t)),
        ("suboffsets", ctypes.POINTER(ctypes.c_ssize_t)),
        ("internal", ctypes.c_void_p),
    ]


def memory_of(data, format, itemsize):
    """What an exporter gives that says so."""
    count = len(data) // itemsize
    shape, strides = (ctypes.c_ssize_t * 1)(count), (ctypes.c_ssize_t * 1)(itemsize)
    address = ctypes.addressof(ctypes.c_char.from_buffer(data))
    view = Buffer(address, None, len(data), itemsize, 0, 1, format, shape, strides)
    make = ctypes.pythonapi.PyMemoryView_FromBuffer
    make.restype, make.argtypes = ctypes.py_object, [ctypes.POINTER(Buffer)]
    return make(view)


class Arrays(Case):
    def test_all_types_of_numpy(self):
        def body(comm):
            for name in ("i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "?", "f2", "f4", "f8", "c8", "c16"):
                mine = numpy.array([0, 1, comm.rank], name)
                wanted = numpy.array([0, 1, 1], "?") if name == "?" else numpy.array([0, 2, 1], name)
                self.assert_same(comm.all_reduce(mine, op="max" if name == "?" else "sum"), wanted)
            self.assert_same(comm.all_reduce(numpy.ones(2, numpy.longlong)), numpy.full(2, 2, numpy.longlong))

        threads(2, body)

    def test_bfloat16(self):
        import ml_dtypes

        def body(comm):
            mine = numpy.array([1.5, comm.rank], ml_dtypes.bfloat16)
            found = comm.all_reduce(mine)
            self.assertEqual(found.dtype, mine.dtype)
            self.assertEqual(found.tolist(), [3.0, 1.0])
            comm.all_reduce(mine, out=mine)
            self.assertEqual(mine.tolist(), [3.0, 1.0])
            add = pytutti.Op(lambda a, b: a + b, "bfloat16")
            self.assertEqual(comm.all_reduce(mine, op=add).tolist(), [6.0, 2.0])

        threads(2, body)

    def test_objects_with_the_buffer_protocol(self):
        def body(comm):
            for make in (
                lambda: array.array("d", [1, 2]),
                lambda: (ctypes.c_double * 2)(1, 2),
                lambda: memoryview(bytearray(numpy.array([1.0, 2.0]).tobytes())).cast("d"),
            ):
                mine = make()
                comm.all_reduce(mine, out=mine)
                self.assertEqual(list(mine), [2.0, 4.0])
                self.assert_same(comm.all_reduce(mine), numpy.array([4.0, 8.0]))
            data = bytearray(b"ab") if comm.rank == 0 else bytearray(2)
            comm.broadcast(data)
            self.assertEqual(data, b"ab")
            self.assertEqual(bytes(comm.all_gather(b"x%d" % comm.rank)), b"x0x1")
            with mmap.mmap(-1, 16) as memory:
                comm.all_reduce(memory, out=memory, op="bor")

        threads(2, body)

    def test_a_format_whose_letter_means_another_size_to_numpy_is_refused(self):
        """With NumPy's size, a call would go on behind the end of the memory."""
        data = bytearray(numpy.array([1, 2]).tobytes())
        with pytutti.connect(0, 1) as comm:
            self.assert_same(comm.all_reduce(memory_of(data, b"<l", 8)), numpy.array([1, 2]))
            for format, itemsize in ((b"<l", 4), (b"=L", 4), (b"<l", 2)):
                memory = memory_of(data, format, itemsize)
                words = f"format '{format.decode()}' with {itemsize} bytes per element"
                self.assert_fails(pytutti.InvalidArgument, words, comm.all_reduce, memory, out=memory)

    def test_tensors_by_dlpack(self):
        def body(comm):
            for kind in (Tensor, OldTensor):
                mine = kind(numpy.array([1.0, comm.rank]))
                made = comm.all_reduce(mine)
                self.assertIsInstance(made, Tensor)
                self.assert_same(made.data, numpy.array([2.0, 1.0]))
                comm.all_reduce(mine, out=mine)
                self.assert_same(mine.data, numpy.array([2.0, 1.0]))
                self.assert_same(
                    comm.all_gather(Tensor(numpy.full((2, 2), comm.rank, "f2"))).data[::2, 0], numpy.array([0, 1], "f2")
                )
                self.assertIsInstance(comm.exclusive_scan(mine), Tensor)
                part = kind(numpy.arange(8.0)[2:4])
                self.assert_same(comm.all_reduce(part).data, numpy.array([4.0, 6.0]))

        threads(2, body)

    def test_tensors_of_pytorch(self):
        try:
            import torch
        except ImportError:
            self.skipTest("PyTorch is not installed")

        def body(comm):
            for dtype in (torch.float32, torch.bfloat16, torch.float16, torch.int64, torch.complex64):
                mine = torch.ones(4, dtype=dtype)
                comm.all_reduce(mine, out=mine)
                self.assertTrue(bool((mine == 2).all()), dtype)
                made = comm.all_gather(mine)
                self.assertEqual((type(made), made.dtype, tuple(made.shape)), (torch.Tensor, dtype, (8,)))
            self.assert_fails(pytutti.InvalidArgument, "x.contiguous()", comm.all_reduce, torch.ones(4, 4)[:, 1])
            self.assert_fails(pytutti.InvalidArgument, "detach()", comm.all_reduce, torch.ones(4, requires_grad=True))
            half = torch.zeros(4, dtype=torch.complex32)
            self.assert_fails(pytutti.InvalidArgument, "x.view(torch.uint8)", comm.broadcast, half, 0)
            comm.broadcast(half.view(torch.uint8), 0)
            meta = torch.ones(4, device="meta")
            self.assert_fails(pytutti.InvalidArgument, "cannot be read: Unknown device", comm.all_reduce, meta)

        threads(2, body)

    def test_a_wrong_array_is_named_with_the_remedy(self):
        def body(comm):
            wrong = pytutti.InvalidArgument
            grid = numpy.zeros((4, 4))
            self.assert_fails(wrong, "ascontiguousarray", comm.all_reduce, grid[:, 1])
            self.assert_fails(wrong, "ascontiguousarray", comm.all_reduce, grid.T[1:], out=grid[1:])
            self.assert_fails(wrong, "byte order", comm.all_reduce, numpy.zeros(2, ">i4"))
            self.assert_fails(wrong, "<M8[s]", comm.all_reduce, numpy.zeros(2, "M8[s]"))
            error = self.assert_fails(wrong, "|O", comm.all_reduce, numpy.array([comm, comm]))
            self.assertNotIn("x.view", str(error))
            long = numpy.arange(2, dtype="g")
            self.assert_fails(wrong, "x.view(numpy.uint8)", comm.broadcast, long, 0)
            comm.broadcast(long.view(numpy.uint8), 0)
            self.assert_fails(wrong, "cast('B')", comm.broadcast, memoryview(long), 0)
            comm.broadcast(memoryview(long).cast("B"), 0)
            frozen = numpy.zeros(2)
            frozen.flags.writeable = False
            self.assert_fails(wrong, "read-only", comm.all_reduce, numpy.zeros(2), out=frozen)
            self.assert_fails(wrong, "read-only", comm.all_reduce, frozen, out=frozen)
            comm.all_reduce(frozen)
            self.assert_fails(
                wrong, "out has 3 elements, but x has 2", comm.all_reduce, numpy.zeros(2), out=numpy.zeros(3)
            )
            self.assert_fails(
                wrong,
                "out has elements of f32, but x of f64",
                comm.all_reduce,
                numpy.zeros(2),
                out=numpy.zeros(2, "f4"),
            )
            self.assert_fails(wrong, "numpy.asarray(x) makes", comm.all_reduce, [1, 2])
            self.assert_fails(wrong, "numpy.asarray(x) makes", comm.all_reduce, 3.0)
            for thing in ("text", {"a": 1}, numpy.asarray("text"), numpy.asarray({"a": 1})):
                error = self.assert_fails(wrong, "not pickled: give bytes", comm.broadcast, thing, 0)
                self.assertNotIn("asarray", str(error))
            self.assert_fails(wrong, "x.cpu()", comm.all_reduce, OnDevice(numpy.zeros(2)))
            for error in (BufferError("lazy"), RuntimeError("lazy"), ValueError("lazy")):
                for on_device in (False, True):
                    tensor = Unreadable(error, on_device)
                    self.assert_fails(wrong, "Unreadable that cannot be read: lazy", comm.all_reduce, tensor)
            self.assert_fails(wrong, "contiguous", comm.all_reduce, Tensor(grid[:, 1]))
            self.assert_fails(wrong, "bytearray", comm.broadcast, bytes(2), 1 - comm.rank)
            self.assert_fails(wrong, "no op 'suum'", comm.all_reduce, numpy.zeros(2), op="suum")
            self.assert_fails(wrong, "3 entries", comm.all_gather_v, numpy.zeros(2), [1, 1, 1])
            self.assert_fails(wrong, "counts[", comm.all_gather_v, numpy.zeros(2), [1, 1])
            self.assert_fails(wrong, "mask", comm.all_reduce, numpy.ma.masked_array([1.0, 2.0], [0, 1]))
            self.assert_fails(wrong, "overlap", comm.all_reduce, grid[:2], out=grid[1:3])
            self.assert_same(comm.all_reduce(numpy.ones(1)), numpy.full(1, 2.0))  # it goes on

        threads(2, body)
