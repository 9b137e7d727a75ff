-- KEYS meta, slots, expiry
-- ARGV worker, 1 to write the row again
-- WAIT promises to wait for the writes of its own connection alone. Writing the
-- row as it is makes a WAIT that follows cover every write before it, whatever
-- the server does for connections that have only read.

local worker = ARGV[1]
local score = redis.call('ZSCORE', KEYS[3], worker)
local value = redis.call('HGET', KEYS[2], worker)
if not value then
  return { 'lost' }
end
if ARGV[2] == '1' then
  redis.call('HSET', KEYS[2], worker, value)
end
return { 'ok', text(clock()), worker, value, score or '0' }
