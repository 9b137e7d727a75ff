-- KEYS meta, slots, blocks
-- ARGV layout, first worker, last worker, first tick, last tick, sequences,
--      the layout's last sequence, guard of a new generation, its name
-- The blocks of worker w are the fields w:1 to w:n, first tick|last tick|first
-- sequence|last sequence, none of which ever changes; field w holds n.

local layout, lo, hi, first, last = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])
local wanted, last_sequence, guard, candidate = tonumber(ARGV[6]), tonumber(ARGV[7]), tonumber(ARGV[8]), ARGV[9]
local CHUNK = 512

-- The record counts all blocks, so that losing them alone is noticed.
local total = tonumber(redis.call('HGET', KEYS[3], 'total') or '0')
local recorded = redis.call('HGET', KEYS[1], 'blocks')
if recorded and tonumber(recorded) ~= total then
  error('DAMAGED blocks: ' .. recorded .. ' were reserved, ' .. text(total) .. ' are left')
end

local function next_free(worker, version)
  local free = 0
  for from = 1, version, CHUNK do
    local fields = {}
    for i = from, math.min(version, from + CHUNK - 1) do
      fields[#fields + 1] = worker .. ':' .. text(i)
    end
    for i, block in ipairs(redis.call('HMGET', KEYS[3], unpack(fields))) do
      local a, b, c, d = string.match(block or '', '^(%d+)|(%d+)|(%d+)|(%d+)$')
      if not a then
        error('DAMAGED block ' .. fields[i])
      end
      if tonumber(a) <= last and first <= tonumber(b) then
        free = math.max(free, tonumber(d) + 1)
      end
    end
  end
  return free
end

local best = nil
for w = lo, hi do
  local worker = text(w)
  local version = tonumber(redis.call('HGET', KEYS[3], worker) or '0')
  local free = next_free(worker, version)
  if free <= last_sequence and (not best or free < best.free) then
    best = { worker = worker, version = version, free = free }
  end
  if best and best.free == 0 then
    break
  end
end

local generation, refusal = begin(KEYS[1], KEYS[2], layout, candidate, guard, clock())
if not generation then
  return refusal
end
if not best then
  return { 'exhausted' }
end
local upper = math.min(last_sequence, best.free + wanted - 1)
local version = text(best.version + 1)
redis.call('HSET', KEYS[3], best.worker, version,
  best.worker .. ':' .. version, text(first) .. '|' .. text(last) .. '|' .. text(best.free) .. '|' .. text(upper),
  'total', text(total + 1))
redis.call('HSET', KEYS[1], 'blocks', text(total + 1))
return { 'ok', best.worker, text(best.free), text(upper) }
