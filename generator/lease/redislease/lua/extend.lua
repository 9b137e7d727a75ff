-- KEYS meta, slots, expiry
-- ARGV worker, term, token, high water that is held, the new one, expiry,
--      window and slack together
-- It never creates a row.

local worker, term, token, held, through = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]
local now = clock()
local score = redis.call('ZSCORE', KEYS[3], worker)
local meta = redis.call('HMGET', KEYS[1], 'format', 'generation')
local value = redis.call('HGET', KEYS[2], worker)
if not value or meta[1] ~= FORMAT then
  return { 'lost' }
end
local row = parse(worker, value)
if row.term ~= term or row.token ~= token or row.high ~= held or row.generation ~= meta[2] then
  return { 'lost' }
end
if tonumber(through) > tonumber(held) then
  if tonumber(through) > now + tonumber(ARGV[7]) then
    return { 'skew', text(now), through }
  end
else
  through = held
end
redis.call('HSET', KEYS[2], worker, join(term, through, token, row.generation))
redis.call('ZADD', KEYS[3], text(now + tonumber(ARGV[6])), worker)
return { 'ok', through, text(now) }
