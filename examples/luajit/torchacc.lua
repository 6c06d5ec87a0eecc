-- libtorchacc.so from LuaJIT, as far as the example beside this file needs it: the whole binding. Its declarations are
-- include/torchacc.h itself, which is C that LuaJIT reads.

local ffi = require("ffi")

--- Declares the functions and types of a C header; its numbers as a table.
local function declare(path)
  local file = assert(io.open(path))
  local text = file:read("*a"):gsub("#ifdef __cplusplus.-#endif[^\n]*", "")
  file:close()
  local numbers = {}
  for name, number in text:gmatch("#define TORCHACC_([%w_]+) (%d+)") do
    numbers[name] = tonumber(number)
  end
  text = text:gsub("#define TORCHACC_[%w_]+ %d+", ""):gsub("#[^\n]*", "")
  for name, number in pairs(numbers) do
    text = text:gsub("%[TORCHACC_" .. name .. "%]", "[" .. number .. "]")
  end
  ffi.cdef(text)
  return numbers
end

local here = debug.getinfo(1, "S").source:match("^@(.*/)") or "./"
local C = declare(os.getenv("TORCHACC_HEADER") or here .. "../../include/torchacc.h")
local lib = ffi.load(os.getenv("TORCHACC_LIBRARY") or "libtorchacc.so.1")
assert(lib.torchacc_abi_version() == C.ABI, "the library and the header have different ABIs")

--- Raises the error that a function of the library returned.
local function check(err)
  if err == nil then return end
  local message = lib.torchacc_error_message(err)
  local text = ffi.string(message.data, message.len)
  lib.torchacc_error_free(err)
  error(text, 2)
end

local function str(text)
  return ffi.new("torchacc_str", { data = text, len = #text })
end

local operators = {}

local function operator(name)
  if not operators[name] then
    local out = ffi.new("torchacc_op[1]")
    check(lib.torchacc_op_find(str(name), out))
    operators[name] = out[0]
  end
  return operators[name]
end

local M = {}

--- No tensor where one is optional.
M.none = {}

--- A number that may differ from call to call without compiling again.
function M.scalar(value)
  return { scalar = value }
end

--- Tensors made inside a `tidy`, innermost last.
local scopes = {}

local function tensor(pointer)
  local handle = ffi.gc(pointer, lib.torchacc_tensor_release)
  local scope = scopes[#scopes]
  if scope then scope[#scope + 1] = handle end
  return handle
end

local is_tensor = function(value)
  return ffi.istype("torchacc_tensor *", value)
end

--- Handles as a C array.
local function handles(tensors)
  local array = ffi.new("torchacc_tensor *[?]", #tensors)
  for i, handle in ipairs(tensors) do array[i - 1] = handle end
  return array
end

--- Fills a C argument: tensors and lists of them, integers, floats, booleans, lists of integers, `none`, scalars. Returns
--- what has to live until the call.
local function fill(arg, value)
  if value == M.none then
    arg.kind = C.ARG_NONE
  elseif is_tensor(value) then
    arg.kind, arg.v.p = C.ARG_TENSOR, value
  elseif type(value) == "boolean" then
    arg.kind, arg.v.i = C.ARG_BOOL, value and 1 or 0
  elseif type(value) == "number" and value == math.floor(value) then
    arg.kind, arg.v.i = C.ARG_INT, value
  elseif type(value) == "number" then
    arg.kind, arg.v.f = C.ARG_FLOAT, value
  elseif value.scalar then
    arg.kind, arg.v.f = C.ARG_SCALAR_FLOAT, value.scalar
  else
    local array
    arg.len = #value
    if is_tensor(value[1]) then
      arg.kind, array = C.ARG_TENSORS, handles(value)
    else
      arg.kind, array = C.ARG_INTS, ffi.new("int64_t[?]", #value, value)
    end
    arg.v.p = array
    return array
  end
end

local function arguments(values)
  local args, kept = ffi.new("torchacc_arg[?]", #values), {}
  for i, value in ipairs(values) do kept[i] = fill(args[i - 1], value) end
  return args, kept
end

local Context = {}
Context.__index = Context

--- A context with the options' defaults.
function M.context()
  local out = ffi.new("torchacc_context *[1]")
  check(lib.torchacc_context_new(nil, out))
  return setmetatable({ handle = ffi.gc(out[0], lib.torchacc_context_release) }, Context)
end

--- A copy of a C array as a tensor of these sizes.
function Context:tensor(dtype, data, sizes)
  local out, dims = ffi.new("torchacc_tensor *[1]"), ffi.new("int64_t[?]", #sizes, sizes)
  local nbytes = ffi.sizeof(data)
  check(lib.torchacc_tensor_from_host(self.handle, C[dtype], dims, #sizes, data, nbytes, out))
  return tensor(out[0])
end

function Context:zeros(dtype, sizes)
  local out, dims = ffi.new("torchacc_tensor *[1]"), ffi.new("int64_t[?]", #sizes, sizes)
  check(lib.torchacc_tensor_zeros(self.handle, C[dtype], dims, #sizes, out))
  return tensor(out[0])
end

--- Records an operator with one result, or as many as said.
function Context:apply(name, values, results)
  local n = results or 1
  local args, kept = arguments(values)
  local outs = ffi.new("torchacc_tensor *[?]", n)
  check(lib.torchacc_apply(self.handle, operator(name), args, #values, outs, n))
  -- Used to the end, or it might be collected before the call.
  for i = 1, n do kept[i] = tensor(outs[i - 1]) end
  return unpack(kept, 1, n)
end

--- Records an operator whose results go into `outs`.
function Context:apply_into(name, values, outs)
  local args, kept = arguments(values)
  local n = #values
  check(lib.torchacc_apply_into(self.handle, operator(name), args, n, handles(outs), #outs))
  return kept
end

--- The gradients of a loss.
function Context:grad(loss, params)
  local outs = ffi.new("torchacc_tensor *[?]", #params)
  check(lib.torchacc_grad(self.handle, loss, handles(params), #params, outs))
  local grads = {}
  for i = 1, #params do grads[i] = tensor(outs[i - 1]) end
  return grads
end

--- Closes the step: it is compiled if it is new, and run while the next one is recorded.
function Context:cut()
  check(lib.torchacc_cut(self.handle))
end

--- The context's counters, as JSON.
function Context:metrics()
  local out = ffi.new("torchacc_string *[1]")
  check(lib.torchacc_metrics(self.handle, out))
  local string = ffi.gc(out[0], lib.torchacc_string_free)
  local view = lib.torchacc_string_view(string)
  return ffi.string(view.data, view.len)
end

--- The only element of an f32 tensor; waits until it is computed.
function M.item(handle)
  local out = ffi.new("float[1]")
  check(lib.torchacc_tensor_read(handle, out, 4))
  return out[0]
end

--- Runs `body` and releases the tensors it made, but for the one it returns.
function M.tidy(body)
  local made = {}
  scopes[#scopes + 1] = made
  local ok, result = pcall(body)
  scopes[#scopes] = nil
  for _, handle in ipairs(made) do
    if handle ~= result then lib.torchacc_tensor_release(ffi.gc(handle, nil)) end
  end
  if not ok then error(result, 0) end
  return result
end

return M
