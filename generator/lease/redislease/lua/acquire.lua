-- KEYS meta, slots, expiry
-- ARGV layout, first worker, last worker, start, worker to avoid, token,
--      the caller's clock, how far ahead a row may be, window, slack, expiry,
--      guard, guard of a new generation, its name ('' to write none)

local layout, lo, hi, start, avoid, token = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4]), ARGV[5], ARGV[6]
local caller, ahead, window, slack, expiry = tonumber(ARGV[7]), tonumber(ARGV[8]), tonumber(ARGV[9]), tonumber(ARGV[10]), tonumber(ARGV[11])
local guard, new_guard, candidate = tonumber(ARGV[12]), tonumber(ARGV[13]), ARGV[14]
local CHUNK, SHOWN, DAY = 64, 1024, 86400000

local now = clock()
redis.call('ZSCORE', KEYS[3], '') -- a key of another type fails before anything is written
local cap = now + window + slack
if caller + window > cap then
  return { 'skew', text(now), text(caller + window) }
end
local generation, floor = begin(KEYS[1], KEYS[2], layout, candidate, new_guard, now)
if not generation then
  return floor
end
if floor > now + 2 * DAY then
  return { 'floor', text(now), text(floor) }
end

local chosen, spare, taken = nil, nil, { 'full', text(now) }
local count = math.max(0, hi - lo + 1)
local done = 0
while done < count and not chosen do
  local workers = {}
  for i = 1, math.min(CHUNK, count - done) do
    workers[i] = text(lo + (start + done + i - 1) % count)
  end
  local rows = redis.call('HMGET', KEYS[2], unpack(workers))
  for i, worker in ipairs(workers) do
    local row, score = nil, nil
    if rows[i] then
      row = parse(worker, rows[i])
      score = redis.call('ZSCORE', KEYS[3], worker)
    end
    local high = row and tonumber(row.high) or 0
    if (not score or tonumber(score) <= now) and high <= caller + ahead and high <= cap then
      local pick = { worker = worker, term = row and tonumber(row.term) or 0, high = high }
      if worker ~= avoid then
        chosen = pick
        break
      end
      spare = pick
    elseif #taken < 2 + 3 * SHOWN then
      taken[#taken + 1] = worker
      taken[#taken + 1] = rows[i]
      taken[#taken + 1] = score or '0'
    end
  end
  done = done + #workers
end
chosen = chosen or spare
if not chosen then
  return taken
end

-- Claim, then wait: an owner whose grant this server has lost issues ids up to
-- its high water, which is less than a guard ahead.
local from = math.max(chosen.high, caller, floor)
local not_before = 0
if guard > 0 then
  not_before = now + guard
end
if floor > now then
  not_before = math.max(not_before, floor)
end
from = math.max(from, not_before)
local term, through = text(chosen.term + 1), text(math.max(chosen.high, caller + window))
redis.call('HSET', KEYS[2], chosen.worker, join(term, through, token, generation))
redis.call('ZADD', KEYS[3], text(now + expiry), chosen.worker)
return { 'ok', chosen.worker, term, text(from), through, text(not_before), text(now) }
