/* A plugin of the PJRT C API that computes -x of its first argument, of f32, or fails as it is
 * built: MAJOR, MINOR   its version                  TABLE      how many functions its table has
 *   MISSING        a function that is NULL      NO_TABLE   it has none at all
 *   FAILS          "function", which returns an error of the code CODE
 *   LATE           running goes wrong after it has begun
 *   OUTPUTS        results that it says it has  ELEMENT    their type
 *   DEVICES        devices that it has
 * Every struct that it is given must be as large as that of version 0.81. `live` counts what is not
 * destroyed yet. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#ifndef MAJOR
#define MAJOR 0
#endif
#ifndef MINOR
#define MINOR 81
#endif
#ifndef TABLE
#define TABLE 100
#endif
#ifndef MISSING
#define MISSING -1
#endif
#ifndef FAILS
#define FAILS ""
#endif
#ifndef CODE
#define CODE 13
#endif
#ifndef OUTPUTS
#define OUTPUTS 1
#endif
#ifndef ELEMENT
#define ELEMENT 11
#endif
#ifndef DEVICES
#define DEVICES 1
#endif

enum { WORDS = 16, RANK = 8 };

/* Whatever is handed out. */
typedef struct object {
  char kind;
  int code;          /* of an error */
  const char* text;  /* of an error */
  struct object* of; /* of an event: the array that must be gone before it comes */
  const float* data; /* of an array */
  float* owned;      /* of an array that was computed */
  int64_t sizes[RANK];
  size_t rank, count;
} object;

static int alive, wrong;

int live(void) { return alive; }
int misused(void) { return wrong; }

static object* make(char kind) {
  object* made = calloc(1, sizeof *made);
  made->kind = kind;
  ++alive;
  return made;
}

static void end(object* gone, char kind) {
  if (!gone || gone->kind != kind) {
    ++wrong;
    return;
  }
  gone->kind = 0; /* and the memory stays, so that a second end is seen */
  free(gone->owned);
  --alive;
}

static object* error(int code, const char* text) {
  object* made = make('!');
  made->code = code;
  made->text = text;
  return made;
}

/* Arguments are words of 8 bytes: the size and the extensions first. */
typedef size_t words[WORDS];

static object* begin(const size_t* args, size_t size, const char* name) {
  if (args[0] < size || args[1]) return error(3, "Unexpected size of a struct");
  if (!strcmp(FAILS, name)) return error(CODE, "made to fail");
  return NULL;
}

#define FUNCTION(name, size)                   \
  static object* name##_(size_t* args);        \
  static object* name(size_t* args) {          \
    object* failed = begin(args, size, #name); \
    return failed ? failed : name##_(args);    \
  }                                            \
  static object* name##_(size_t* args)
#define OBJECT(n) ((object*)args[n])

static void error_destroy(size_t* args) { end(OBJECT(2), '!'); }
static void error_message(size_t* args) {
  args[3] = (size_t)OBJECT(2)->text;
  args[4] = strlen(OBJECT(2)->text);
}
static object* error_code(size_t* args) {
  memcpy(&args[3], &OBJECT(2)->code, sizeof(int));
  return NULL;
}

FUNCTION(initialize, 16) {
  (void)args;
  return NULL;
}
FUNCTION(event_destroy, 24) {
  end(OBJECT(2), 'e');
  return NULL;
}
FUNCTION(await, 24) {
  const object* event = OBJECT(2);
  if (event->of && event->of->kind) ++wrong; /* would wait for ever */
  return event->code ? error(event->code, "it went wrong later") : NULL;
}
FUNCTION(client_create, 88) {
  args[8] = (size_t)make('c');
  return NULL;
}
FUNCTION(client_destroy, 24) {
  end(OBJECT(2), 'c');
  return NULL;
}
FUNCTION(platform, 40) {
  args[3] = (size_t)"fake";
  args[4] = 4;
  return NULL;
}
FUNCTION(devices, 40) {
  static void* all[] = {&alive};
  args[3] = (size_t)all;
  args[4] = DEVICES;
  return NULL;
}
FUNCTION(compile, 56) {
  const size_t* program = OBJECT(3) ? (const size_t*)args[3] : NULL;
  if (!program || program[0] < 48 || program[5] != 4 || memcmp((char*)program[4], "mlir", 4))
    return error(3, "not a program");
  args[6] = (size_t)make('l');
  return NULL;
}
FUNCTION(loaded_destroy, 24) {
  end(OBJECT(2), 'l');
  return NULL;
}
FUNCTION(get_executable, 32) {
  if (OBJECT(2)->kind != 'l') ++wrong;
  args[3] = (size_t)make('x');
  return NULL;
}
FUNCTION(executable_destroy, 24) {
  end(OBJECT(2), 'x');
  return NULL;
}
static void serialized_end(object* gone) { end(gone, 's'); }
FUNCTION(serialize, 56) {
  if (OBJECT(2)->kind != 'x') ++wrong;
  args[3] = (size_t)"negation";
  args[4] = 8;
  args[5] = (size_t)make('s');
  args[6] = (size_t)serialized_end;
  return NULL;
}
FUNCTION(deserialize, 64) {
  if (OBJECT(2)->kind != 'c') ++wrong;
  if (args[4] != 8 || memcmp((char*)args[3], "negation", 8)) return error(3, "not an executable");
  args[5] = (size_t)make('l');
  return NULL;
}
FUNCTION(outputs, 32) {
  args[3] = OUTPUTS;
  return NULL;
}
FUNCTION(from_host, 120) {
  if (OBJECT(2)->kind != 'c' || args[10] != (size_t)&alive) ++wrong;
  object *array = make('b'), *event = make('e');
  array->data = (const float*)args[3];
  array->rank = args[6];
  array->count = 1;
  memcpy(array->sizes, (void*)args[5], array->rank * sizeof(int64_t));
  for (size_t d = 0; d < array->rank; ++d) array->count *= (size_t)array->sizes[d];
  event->of = array;
  args[13] = (size_t)event;
  args[14] = (size_t)array;
  return NULL;
}
FUNCTION(execute, 80) {
  if (OBJECT(2)->kind != 'l' || args[5] != 1 || args[6] < 1) ++wrong;
  const object* given = (*(object***)args[4])[0];
  object *made = make('b'), *event = make('e');
  *made = *given;
  made->owned = malloc(given->count * sizeof(float) + 1);
  for (size_t i = 0; i < given->count; ++i) made->owned[i] = -given->data[i];
  made->data = made->owned;
#ifdef LATE
  event->code = CODE;
#endif
  (*(object***)args[7])[0] = made;
  *(object**)args[8] = event;
  return NULL;
}
FUNCTION(buffer_destroy, 24) {
  end(OBJECT(2), 'b');
  return NULL;
}
FUNCTION(element, 28) {
  int type = ELEMENT;
  memcpy(&args[3], &type, sizeof type);
  return NULL;
}
FUNCTION(dimensions, 40) {
  args[3] = (size_t)OBJECT(2)->sizes;
  args[4] = OBJECT(2)->rank;
  return NULL;
}
FUNCTION(to_host, 56) {
  const object* array = OBJECT(2);
  if (array->kind != 'b' || args[5] != array->count * sizeof(float)) ++wrong;
  memcpy((void*)args[4], array->data, args[5]);
  args[6] = (size_t)make('e');
  return NULL;
}

typedef struct {
  size_t size;
  void* extensions;
  size_t version_size;
  void* version_extensions;
  int major, minor;
  void (*functions[100])(void);
} table;

const table* GetPjrtApi(void) {
#ifdef NO_TABLE
  return NULL;
#endif
  static table api = {.version_size = 24, .major = MAJOR, .minor = MINOR};
  api.size = 40 + 8 * TABLE;
#define SLOT(n, f) api.functions[n] = (void (*)(void))(n == MISSING ? NULL : f)
  SLOT(0, error_destroy);
  SLOT(1, error_message);
  SLOT(2, error_code);
  SLOT(3, initialize);
  SLOT(5, event_destroy);
  SLOT(8, await);
  SLOT(10, client_create);
  SLOT(11, client_destroy);
  SLOT(12, platform);
  SLOT(16, devices);
  SLOT(20, compile);
  SLOT(22, from_host);
  SLOT(40, executable_destroy);
  SLOT(44, outputs);
  SLOT(49, serialize);
  SLOT(50, loaded_destroy);
  SLOT(51, get_executable);
  SLOT(55, execute);
  SLOT(56, deserialize);
  SLOT(58, buffer_destroy);
  SLOT(59, element);
  SLOT(60, dimensions);
  SLOT(70, to_host);
  return &api;
}
