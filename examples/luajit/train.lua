-- A byte-level language model trained from LuaJIT: luajit train.lua FILE [STEPS]
--
-- The next byte from the 16 before it: an embedding, two layers, cross entropy, AdamW.

local ffi = require("ffi")
package.path = (arg[0]:match("(.*/)") or "./") .. "?.lua;" .. package.path
local torchacc = require("torchacc")

local path, steps = arg[1], tonumber(arg[2] or 300)
if not path then
  io.stderr:write("usage: luajit train.lua FILE [STEPS]\n")
  os.exit(2)
end
local file = assert(io.open(path, "rb"))
local text = file:read("*a")
file:close()
local CONTEXT, BATCH, WIDTH, HIDDEN = 16, 64, 32, 256
assert(#text > CONTEXT, path .. " is too short")

math.randomseed(1)
local acc, none, scalar = torchacc.context(), torchacc.none, torchacc.scalar
local shapes = { { 256, WIDTH }, { CONTEXT * WIDTH, HIDDEN }, { HIDDEN }, { HIDDEN, 256 }, { 256 } }
local params, means, squares = {}, {}, {}
for i, sizes in ipairs(shapes) do
  local inputs, outputs = sizes[1], sizes[2]
  if outputs then
    -- Random numbers of variance 1 / inputs.
    local data, scale = ffi.new("float[?]", inputs * outputs), math.sqrt(3 / inputs)
    for n = 0, inputs * outputs - 1 do data[n] = scale * (2 * math.random() - 1) end
    params[i] = acc:tensor("F32", data, sizes)
  else
    params[i] = acc:zeros("F32", sizes)
  end
  means[i], squares[i] = acc:zeros("F32", sizes), acc:zeros("F32", sizes)
end

--- Records the loss of a batch.
local function loss(inputs, targets)
  local embedding, weight1, bias1, weight2, bias2 = unpack(params)
  local bytes = acc:apply("aten::embedding", { embedding, inputs, -1, false, false })
  local flat = acc:apply("reshape", { bytes, { BATCH, CONTEXT * WIDTH } })
  local hidden = acc:apply("aten::relu", { acc:apply("aten::addmm", { bias1, flat, weight1, 1, 1 }) })
  local logits = acc:apply("aten::addmm", { bias2, hidden, weight2, 1, 1 })
  local logs = acc:apply("aten::_log_softmax", { logits, 1, false })
  return (acc:apply("aten::nll_loss_forward", { logs, targets, none, 1, -100 }, 2))
end

--- Of several lists one.
local function joined(...)
  local all = {}
  for _, list in ipairs({ ... }) do
    for _, item in ipairs(list) do all[#all + 1] = item end
  end
  return all
end

local function step(number)
  local inputs, targets = ffi.new("int64_t[?]", BATCH * CONTEXT), ffi.new("int64_t[?]", BATCH)
  for row = 0, BATCH - 1 do
    local start = math.random(#text - CONTEXT)
    for i = 0, CONTEXT - 1 do inputs[row * CONTEXT + i] = text:byte(start + i) end
    targets[row] = text:byte(start + CONTEXT)
  end
  local value = torchacc.tidy(function()
    local x, y = acc:tensor("I64", inputs, { BATCH, CONTEXT }), acc:tensor("I64", targets, { BATCH })
    local value = loss(x, y)
    local rate = 3e-3 * math.min(1, number / 20)
    local lists = { params, acc:grad(value, params), means, squares }
    for _, n in ipairs({ number, rate, 0.9, 0.99, 0.01, 1e-8 }) do lists[#lists + 1] = scalar(n) end
    acc:apply_into("torchacc::adamw", lists, joined(params, means, squares))
    return value
  end)
  acc:cut()
  return torchacc.item(value)
end

local sum, every = 0, 50
for number = 1, steps do
  sum = sum + step(number)
  if number % every == 0 then
    print(("step %d: loss %.3f"):format(number, sum / every))
    sum = 0
  end
end
local metrics = acc:metrics()
local count = function(name) return metrics:match('"' .. name .. '": (%d+)') end
local compiles, known, recorded = count("compiles"), count("replayed_ops"), count("recorded_ops")
print(("%s programs compiled, %s of %s operations known"):format(compiles, known, recorded))
