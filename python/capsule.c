// Reads a capsule of DLPack (dlpack.h, versions 0.8 and 1): what a tensor of another library is. The capsule stays as
// it is; the memory lives as long as the capsule.

typedef struct {
  void* data;
  struct {
    int32_t type;
    int32_t id;
  } device;
  int32_t dimensions;
  struct {
    uint8_t code;
    uint8_t bits;
    uint16_t lanes;
  } type;
  const int64_t* shape;
  const int64_t* strides;  // in elements; NULL: row after row
  uint64_t byte_offset;
} dlpack_tensor;

typedef struct {
  struct {
    uint32_t major;
    uint32_t minor;
  } version;
  void* manager;
  void (*deleter)(void*);
  uint64_t flags;
  dlpack_tensor tensor;
} dlpack_versioned;

enum { dlpack_read_only = 1 };

static void describe_tensor(const dlpack_tensor* from, pytutti_tensor* to) {
  int64_t expected = 1;
  to->data = (char*)from->data + from->byte_offset;
  to->device = from->device.type;
  to->dimensions = from->dimensions;
  to->code = from->type.code;
  to->bits = from->type.bits;
  to->lanes = from->type.lanes;
  to->contiguous = 1;
  to->count = 1;
  for (int32_t axis = from->dimensions - 1; axis >= 0; --axis) {
    if (from->strides && from->shape[axis] != 1 && from->strides[axis] != expected) to->contiguous = 0;
    expected *= from->shape[axis];
    to->count *= (uint64_t)from->shape[axis];
  }
  if (to->count == 0) to->contiguous = 1;
}

/// 0; or 1: this is no capsule with a tensor that can be read.
static int32_t pytutti_read_capsule(uintptr_t capsule, pytutti_tensor* tensor) {
  PyObject* const object = (PyObject*)capsule;
  int32_t result = 0;
  const PyGILState_STATE state = PyGILState_Ensure();
  if (PyCapsule_IsValid(object, "dltensor_versioned")) {
    const dlpack_versioned* const versioned = PyCapsule_GetPointer(object, "dltensor_versioned");
    if (versioned->version.major == 1) {
      tensor->read_only = (versioned->flags & dlpack_read_only) != 0;
      describe_tensor(&versioned->tensor, tensor);
    } else {
      result = 1;
    }
  } else if (PyCapsule_IsValid(object, "dltensor")) {
    tensor->read_only = 0;
    describe_tensor(PyCapsule_GetPointer(object, "dltensor"), tensor);
  } else {
    result = 1;
  }
  PyGILState_Release(state);
  return result;
}
