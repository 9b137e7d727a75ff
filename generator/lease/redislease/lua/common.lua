-- Shared by every script: it is put before each of them.
-- Times are Unix milliseconds. Numbers leave as text made by '%.0f', since
-- tostring keeps 14 digits and a reply's number loses its fraction.

local FORMAT = '1'

local function text(number)
  return string.format('%.0f', number)
end

local function clock()
  local time = redis.call('TIME')
  return tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
end

-- A row is term|high water|token|generation; a token may hold bars itself.
local function parse(worker, row)
  local term, high, token, generation = string.match(row, '^(%d+)|(%d+)|(.*)|(%x+)$')
  if not term then
    error('DAMAGED row of worker ' .. worker)
  end
  return { term = term, high = high, token = token, generation = generation }
end

local function join(term, high, token, generation)
  return term .. '|' .. high .. '|' .. token .. '|' .. generation
end

-- begin checks a namespace's record and writes it where it is missing. The
-- rows carry the generation too: one that differs says that they were deleted
-- alone. Owners of the time before may issue ids until their high waters have
-- passed, hence the floor. It returns generation and floor, or nil and a reply.
local function begin(meta_key, slots_key, layout, candidate, guard, now)
  local meta = redis.call('HMGET', meta_key, 'format', 'generation', 'floor', 'layout')
  local mark = redis.call('HGET', slots_key, 'generation')
  if meta[1] and meta[1] ~= FORMAT then
    return nil, { 'format', meta[1] }
  end
  if meta[4] and meta[4] ~= layout then
    return nil, { 'layout', meta[4] }
  end
  local floor = tonumber(meta[3] or '0')
  if meta[2] and mark == meta[2] then
    return meta[2], floor
  end
  if candidate == '' then
    return nil, { 'absent' }
  end
  floor = math.max(floor, now + guard)
  redis.call('HSET', meta_key, 'format', FORMAT, 'generation', candidate, 'floor', text(floor), 'layout', layout)
  redis.call('HSET', slots_key, 'generation', candidate)
  return candidate, floor
end
