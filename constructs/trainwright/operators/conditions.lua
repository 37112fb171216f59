-- What a controller says by its conditions. A condition counts while its status is "True".
local meaning = {
  {"Failed", "Degraded"},
  {"Complete", "Healthy"},
  {"Completed", "Healthy"},
  {"Succeeded", "Healthy"},
  {"Suspended", "Suspended"},
  {"Restarting", "Progressing"},
  {"Running", "Progressing"},
  {"Created", "Progressing"},
}
local said = {}
if obj.status ~= nil and obj.status.conditions ~= nil then
  for _, condition in ipairs(obj.status.conditions) do
    if condition.status == "True" then
      said[condition.type] = condition.message or condition.reason or ""
    end
  end
end
for _, row in ipairs(meaning) do
  local word, health = row[1], row[2]
  if said[word] ~= nil then
    return { status = health, message = word .. ": " .. said[word] }
  end
end
return { status = "Progressing", message = "no verdict yet" }
